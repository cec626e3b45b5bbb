"""Figures and traces for the systems that people have: one table of metrics, and the ways out of it."""
