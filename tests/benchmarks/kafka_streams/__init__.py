"""Kafka Streams doing the work that is measured here, for comparison."""
