"""The errors of finding Java and resolving jars, as one tree.

::

    StatefulStreamsError
    ├── JavaError    no Java, or one that is too old
    └── JarsError    the jars could not be resolved
"""

from __future__ import annotations

from airflow_provider.errors import StatefulStreamsError


class JavaError(StatefulStreamsError):
    """No Java was found, or one that is too old."""


class JarsError(StatefulStreamsError):
    """The jars of some coordinates could not be resolved."""
