"""A real Kafka broker without Docker, and the jars that Spark and Kafka need.

Only the demo, the tests and a developer's laptop use the broker. Nothing else in the package knows it: the
rest takes bootstrap servers, whoever runs them. Import the modules; this one loads none of them.
"""
