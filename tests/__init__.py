"""Tests of the package. The folders under this one mirror the source tree."""
