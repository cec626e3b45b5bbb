"""The PySpark side: the job API, the active step, the standby round, the instance's main. Knows no Airflow."""
