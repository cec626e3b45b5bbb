"""The errors of the embedded broker and of what it is made from, as one tree.

::

    StatefulStreamsError
    └── EmbeddedError
        ├── JavaError           no Java, or one that is too old
        ├── JarsError           the jars could not be resolved
        ├── PortBusyError       somebody else listens on the port
        ├── BrokerFolderError   the folder is in use, or holds what no embedded broker made
        └── BrokerStartError    the broker ended or was not ready within the deadline; carries its last lines
"""

from __future__ import annotations

from airflow_provider.errors import StatefulStreamsError

__all__ = [
    "BrokerFolderError",
    "BrokerStartError",
    "EmbeddedError",
    "JarsError",
    "JavaError",
    "PortBusyError",
]


class EmbeddedError(StatefulStreamsError):
    """The root of the errors of this folder."""


class JavaError(EmbeddedError):
    """No Java was found, or one that is too old."""


class JarsError(EmbeddedError):
    """The jars of some coordinates could not be resolved."""


class PortBusyError(EmbeddedError):
    """Somebody else listens on a port that the broker was given."""


class BrokerFolderError(EmbeddedError):
    """The broker's folder is in use by a living broker, or holds something that no embedded broker made."""


class BrokerStartError(EmbeddedError):
    """The broker ended while it started, or was not ready within the deadline."""
