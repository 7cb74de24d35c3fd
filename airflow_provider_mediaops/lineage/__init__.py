"""The inputs and outputs of tasks, for asset events, OpenLineage and links."""
