"""The control plane: which instance does what, how the instances are, and what to do when one fails.

Its truth lies in two compacted Kafka topics, so it outlives Airflow: ``<app>-assignment`` (written by Airflow, read
by the instances) and ``<app>-status`` (the heartbeats of the instances and the ends that their launchers report, read
by Airflow). The decisions are pure functions of what was read there: no client, no clock. CONTRIBUTING.md lists
its rooms.

Whatever asks brokers raises `BrokerUnreachableError` where they do not answer in time, and `AccessError` where the
connection's user lacks a right. Docstrings name what it raises besides.
"""
