"""What a worker does with rows: how they arrive, and the active step."""
