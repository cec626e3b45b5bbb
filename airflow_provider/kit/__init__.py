"""A kit for laptops and tests: a real Kafka broker without Docker, and records as lines of text.

``python -m airflow_provider.kit`` is its front. Only the demo and the tests import it: the rest of the package takes
the bootstrap servers of any Kafka. Import the modules; this one loads none of them.
"""
