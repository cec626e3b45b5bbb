"""The control plane: which instance does what, how the instances are, and what to do when one fails.

Its truth lies in two compacted Kafka topics, so it outlives Airflow: ``<app>-assignment`` (written by Airflow, read
by the instances) and ``<app>-status`` (the heartbeats of the instances and the ends that their launchers report, read
by Airflow). The decisions are pure functions of what was read there: no client, no clock.

Each room imports only from those before it:

===============  =====================================================================
`records`        the values that are kept in the topics
`topics`         the topics: read, followed, written, published, cleared
`application`    what a job is made of, the topics that follow, what may change
`placement`      which instance should hold which copy of a task
`failover`       what is wrong, and who takes over
`history`        what became of the application, for years
`outlook`        its figures and promises, and what they say of a failover now
`waiting`        what can be waited for
`drills`         rehearsals
===============  =====================================================================

Whatever asks brokers raises `BrokerUnreachableError` where they do not answer in time, and `AccessError` where the
connection's user lacks a right. Docstrings name what it raises besides.
"""
