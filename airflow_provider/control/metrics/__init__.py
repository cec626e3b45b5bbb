"""What each instance says of itself once a minute, for a week."""
