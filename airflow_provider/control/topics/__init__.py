"""The control topics and the commits: read, followed, written, published, cleared."""
