"""The product at work on real parts, in front of you: ``make demo``."""
