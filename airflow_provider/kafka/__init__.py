"""The Kafka cluster: how it is reached, which topics an application has and how they have to be.

Whatever asks brokers raises `BrokerUnreachableError` where they do not answer in time, and `AccessError` where the
connection's user lacks a right. Docstrings name what it raises besides.
"""
