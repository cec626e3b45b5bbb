"""The command line over an application: what it does, and how to stop an instance, without Airflow.

What speaks to the brokers raises `BrokerUnreachableError`; over an application's topics `TopicMissingError`, and where
it publishes `FencedError`. `main` makes a line of each, so the docstrings here name only other errors.
"""
