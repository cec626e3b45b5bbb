"""The errors of the kit."""

from __future__ import annotations

from airflow_provider.errors import StatefulStreamsError


class KitError(StatefulStreamsError):
    """The root of the errors of this folder."""


class PortBusyError(KitError):
    """Another program listens on a port that the broker was given."""


class BrokerFolderError(KitError):
    """The broker's folder is in use by a living broker, or holds something that the kit did not make."""


class BrokerStartError(KitError):
    """The broker ended while it started, or was not ready within the deadline."""


class RecordsError(KitError):
    """A line of text is not a record, or records could not be written to a topic or read from it."""
