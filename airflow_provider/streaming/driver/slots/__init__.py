"""A slot: what its worker is asked to do, and the queries that bring it rows."""
