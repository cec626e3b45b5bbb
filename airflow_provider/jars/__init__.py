"""Jars from Maven Central: Spark's Kafka connector, and what a Kafka broker is made of."""
