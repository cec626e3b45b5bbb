"""What a drill does to an instance, entered only where its job allows faults."""
