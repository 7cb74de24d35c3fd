"""The stand-in for the book database."""
