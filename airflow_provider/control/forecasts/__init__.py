"""When a figure reaches a limit, by the metrics."""
