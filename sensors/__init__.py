"""The sensors: wait on lag and on states. Import them as `airflow_provider.sensors`."""
