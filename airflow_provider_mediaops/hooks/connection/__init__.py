"""An Airflow connection: its fields as typed values, the settings of a client, its form and its warnings."""
