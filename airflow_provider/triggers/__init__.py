"""Triggers for the triggerer: they follow the control topics of an application."""
