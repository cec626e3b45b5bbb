"""Starting an instance and watching its process. Needs neither Spark nor Airflow, so that both sides may import it."""
