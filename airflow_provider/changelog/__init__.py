"""Changelogs: the truth of every store, written in transactions and read back. Knows no Spark and no Airflow."""
