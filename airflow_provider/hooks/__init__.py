"""Hooks: Airflow's connections turned into what the rest of the package works with."""
