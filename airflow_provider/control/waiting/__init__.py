"""What can be waited for, and the wait."""
