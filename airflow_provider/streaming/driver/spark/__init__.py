"""Spark: the session, its one executor, the stores that it hosts, the queries that read sources, its errors."""
