"""The command line over an application: what it does, and how to stop an instance, without Airflow."""
