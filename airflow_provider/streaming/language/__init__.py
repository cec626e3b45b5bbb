"""What a user writes as streams: immutable values, each of which knows what it is made of. Pure: no Spark, no Kafka."""
