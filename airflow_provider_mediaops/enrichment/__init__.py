"""What ties the look-up of a list to a resumable dataset: attempts, checkpoints, progress."""
