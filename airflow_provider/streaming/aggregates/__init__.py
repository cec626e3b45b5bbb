"""Aggregates: by key, by window, by session, in parts that are merged; and duplicates, which are dropped by window."""
