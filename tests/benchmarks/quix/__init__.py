"""quixstreams doing a restore, for comparison, where a Python has it."""
