"""The keyed operations of a job: what an operator of the language computes, and how its state lies in a store."""
