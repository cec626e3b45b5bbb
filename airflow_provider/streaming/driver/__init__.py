"""What runs in the driver, beside Spark's JVM: the instance, its slots, queries and heartbeat."""
