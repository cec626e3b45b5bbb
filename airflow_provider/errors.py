"""The errors of this package, as one tree.

Each message says what was found, what was needed and what to do next. Catch the branch that you can act on::

    StatefulStreamsError
    ├── ConfigurationError          the job, an operator's argument or a connection is wrong: mend it, start again
    │   └── ReservedKeyError        a record's key is one that the changelog keeps for itself
    ├── TopicError                  a topic is not as the job needs it; nothing was processed
    │   ├── TopicMissingError
    │   └── TopicMismatchError      partitions, cleanup policy, replication or owner differ
    ├── BrokerUnreachableError      no broker answered within the deadline
    ├── FencedError                 a newer owner or a newer publisher exists: stop writing, read the newest assignment
    ├── StateError                  a store cannot be used as it is
    │   ├── StoreLockedError        another living process holds the store
    │   ├── StoreCorruptedError     RocksDB refused the files: they are moved aside and restored afresh
    │   ├── StoreOutdatedError      the store cannot be resumed from the changelog: it is restored afresh
    │   └── StoreDivergedError      a standby's store does not hold what the active's does: it is restored afresh
    ├── SnapshotError               a snapshot could not be sent, fetched or read; the changelog restores without it
    ├── RecordError                 one input record cannot be processed; names topic, partition, offset and key
    │   ├── DecodeError
    │   └── ProcessError            the user's function raised
    ├── WorkerError                 a Python worker died, or was ended, again and again in the same batch
    ├── AssignmentError             no valid assignment exists, or what was asked contradicts the newest one
    ├── InstanceError               an instance did not start, ended without a goodbye, does not answer, or is not fit
    └── DeadlineError               something was waited for longer than allowed; says what
"""

from __future__ import annotations

__all__ = [
    "AssignmentError",
    "BrokerUnreachableError",
    "ConfigurationError",
    "DeadlineError",
    "DecodeError",
    "FencedError",
    "InstanceError",
    "ProcessError",
    "RecordError",
    "ReservedKeyError",
    "SnapshotError",
    "StateError",
    "StatefulStreamsError",
    "StoreCorruptedError",
    "StoreDivergedError",
    "StoreLockedError",
    "StoreOutdatedError",
    "TopicError",
    "TopicMismatchError",
    "TopicMissingError",
    "WorkerError",
]


class StatefulStreamsError(Exception):
    """The root of all errors of this package."""


class ConfigurationError(StatefulStreamsError):
    """A job, an argument or a connection is wrong. Mend it and start again."""


class ReservedKeyError(ConfigurationError):
    """A record carries the key that the changelog keeps for its commit records."""


class TopicError(StatefulStreamsError):
    """A topic is not as the job needs it. Nothing was processed."""


class TopicMissingError(TopicError):
    """A topic that must exist does not."""


class TopicMismatchError(TopicError):
    """A topic exists, but with other partitions, cleanup policy, replication or owner than needed."""


class BrokerUnreachableError(StatefulStreamsError):
    """No broker answered within the deadline."""


class FencedError(StatefulStreamsError):
    """A newer owner exists. Whoever gets this has written nothing and must stop writing."""


class StateError(StatefulStreamsError):
    """A store cannot be used as it is."""


class StoreLockedError(StateError):
    """Another living process holds the store."""


class StoreCorruptedError(StateError):
    """RocksDB refused the store's files."""


class StoreOutdatedError(StateError):
    """A store cannot be resumed from its changelog and has to be restored afresh."""


class StoreDivergedError(StateError):
    """A standby's store does not hold what its active's held at the same position."""


class SnapshotError(StatefulStreamsError):
    """A snapshot could not be sent, fetched or read. It stops no task: the changelog restores without it."""


class RecordError(StatefulStreamsError):
    """One input record cannot be processed.

    Args:
        topic: the record's topic.
        partition: its partition.
        offset: its offset, or None where the failure cannot be laid on one record.
        key: its key as text, or None.
        reason: what went wrong, in one line.
    """

    def __init__(self, topic: str, partition: int, offset: int | None, key: str | None, reason: str) -> None:
        self.topic, self.partition, self.offset, self.key, self.reason = topic, partition, offset, key, reason
        at = "?" if offset is None else str(offset)
        super().__init__(f"{topic}[{partition}] at offset {at}, key {key!r}: {reason}")

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, int, int | None, str | None, str]]:
        """Pickle by the arguments, so that the error crosses from a worker to the driver whole."""
        return type(self), (self.topic, self.partition, self.offset, self.key, self.reason)


class DecodeError(RecordError):
    """A record's value is not what the job's schema says."""


class ProcessError(RecordError):
    """The user's function raised for this record's key."""


class WorkerError(StatefulStreamsError):
    """A Python worker died, or was ended because it took too long, again and again in the same batch."""


class AssignmentError(StatefulStreamsError):
    """No valid assignment exists, or what was asked contradicts the newest one."""


class InstanceError(StatefulStreamsError):
    """An instance did not start, ended without a goodbye, does not answer, or its host is not fit to go on."""


class DeadlineError(StatefulStreamsError):
    """Something was waited for longer than allowed. The message says what."""
