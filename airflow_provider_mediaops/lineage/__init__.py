"""What a task has read and written, for asset events, OpenLineage and links."""
