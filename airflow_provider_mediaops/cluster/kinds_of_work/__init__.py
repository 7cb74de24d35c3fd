"""Say in words what kind of work a hot thread does: a table of kinds, and their labels for threads and reports."""
