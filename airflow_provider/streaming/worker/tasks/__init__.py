"""A task: its life, its store and its producer, and what is remembered of it."""
