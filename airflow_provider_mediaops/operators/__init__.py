"""Operators: one task each for the services' functions."""
