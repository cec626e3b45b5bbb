"""Steps that the worker computes itself: the part of Spark SQL that comes to the same there, to the bit."""
