"""Operators: one task each of what the services can do."""
