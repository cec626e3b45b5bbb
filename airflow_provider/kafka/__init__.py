"""The Kafka cluster: how it is reached, which topics an application has and how they have to be."""
