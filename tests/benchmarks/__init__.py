"""Measurements that anyone can run again: ``make bench``. They print figures and assert no absolute time."""
