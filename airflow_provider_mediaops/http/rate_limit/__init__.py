"""The rate of a key, shared by all workers and triggerers that use the key."""
