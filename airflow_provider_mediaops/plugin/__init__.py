"""The pages in Airflow: the report of a capture in a tab of its task instance, and a list of recent captures."""
