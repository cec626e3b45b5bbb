"""The PySpark side: the job API, the active step, the standby round, the instance's main. Knows no Airflow.

A job's file imports `airflow_provider.streaming.job.StatefulJob` and `airflow_provider.streaming.functions`. Nothing is
imported here, so that Airflow can start an instance without loading Spark, Arrow or RocksDB.
"""
