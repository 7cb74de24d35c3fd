"""The stand-in for the search cluster."""
