"""What is wrong, and who takes over."""
