"""
The pages in Airflow: the report of a capture in a tab of its task instance, and a list of recent captures.

Their templates, report.html, list.html and message.html, are in ``cluster/page/static``, beside what they share with
the page that a capture writes.
"""
