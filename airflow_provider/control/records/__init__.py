"""The values that are kept in an application's topics."""
