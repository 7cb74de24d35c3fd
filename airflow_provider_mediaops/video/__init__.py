"""The video platform: models of its records, and its calls."""
