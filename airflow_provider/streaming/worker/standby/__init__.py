"""What a standby does: it follows its changelog, is certified, and is copied elsewhere."""
