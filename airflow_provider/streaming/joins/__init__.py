"""Joins: of streams within an interval, of a stream with a table, of tables."""
