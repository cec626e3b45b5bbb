"""Which instance should hold which copy of a task."""
