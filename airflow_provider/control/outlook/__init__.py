"""What lies ahead: how long a failover would take now, and when a figure reaches a limit."""
