"""What is looked at beside the processing: progress, topics, ends, tables to wait for, what is reported and purged."""
