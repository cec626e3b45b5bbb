"""One meaning of a value: as JSON text, as a column, as a Python value, as bytes of the state."""
