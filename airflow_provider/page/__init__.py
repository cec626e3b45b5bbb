"""The page of applications: its API, which Airflow's API server serves, and in `ui` what the browser shows."""
