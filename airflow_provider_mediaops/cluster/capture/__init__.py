"""Captures of hot threads: what is taken, when, and the files it goes to."""
