"""Links: the buttons that a task of this package has in Airflow's UI."""
