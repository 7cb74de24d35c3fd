"""The search cluster: its calls, node CPU, and hot-threads reports."""
