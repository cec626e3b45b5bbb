"""What became of an application: failovers, drills, restores and upgrades, for years."""
