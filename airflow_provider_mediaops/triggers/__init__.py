"""Triggers: the waiting of the sensors, in the triggerer."""
