"""Snapshots: copies of standbys' stores elsewhere, so that an empty store need not read its whole changelog.

A snapshot is a shortcut and never the truth: whatever is wrong with one, the changelog restores the store.
"""
