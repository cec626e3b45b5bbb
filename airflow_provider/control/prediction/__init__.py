"""How long a failover would take now, by the history and what hosts have shown."""
