"""The operators: create topics, deploy, stop, promote, replay. Import them as `airflow_provider.operators`."""
