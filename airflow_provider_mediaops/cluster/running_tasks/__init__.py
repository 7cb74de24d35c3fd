"""What nodes run while their hot threads are measured: asked for, matched with the threads, and kept."""
