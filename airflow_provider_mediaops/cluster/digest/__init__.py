"""A digest of many captures of hot threads: what recurs, when, in which thread pools, and for which tasks."""
