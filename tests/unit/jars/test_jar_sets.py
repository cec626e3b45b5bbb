from __future__ import annotations

from airflow_provider.jars.jar_sets import default_spark_coordinates


def test_connector_follows_pyspark() -> None:
    assert default_spark_coordinates("4.3.0")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


def test_connector_of_a_development_version_is_its_release() -> None:
    assert default_spark_coordinates("4.2.0.dev3")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
