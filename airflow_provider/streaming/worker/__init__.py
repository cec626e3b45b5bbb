"""What runs in Spark's Python workers: the tasks with their stores, and the calls that reach them."""
