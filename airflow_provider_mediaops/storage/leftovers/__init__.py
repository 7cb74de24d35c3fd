"""What attempts that never came back have left beside their destinations: find it, and delete it."""
