"""The errors of this package, as one tree.

Each message says what was found, what was needed and what to do next. Catch the branch that you can act on::

    StatefulStreamsError
    ├── ConfigurationError          the job, an argument or a connection is wrong: correct it, start again
    │   └── AccessError             the brokers refuse a right: what runs goes on once it is granted
    ├── TopicError                  a topic is not as the job needs it; nothing was processed
    │   ├── TopicMissingError
    │   ├── TopicBlockedError       a transaction of another program hides part of it
    │   ├── TopicDamagedError       a record on a broker's disk is not what was written: bring another replica's back
    │   ├── InputLostError          input was deleted before it was read: say what to do then (on_data_loss)
    │   └── TopicMismatchError      partitions, cleanup policy, replication or owner differ
    ├── BrokerUnreachableError      no broker answered within the deadline
    │   └── LoginRefusedError       the brokers, or who gives the tokens, refuse the connection's user
    ├── FencedError                 a newer owner or a newer publisher exists: stop writing, read the newest assignment
    │   └── OvertakenError          the assignment is older than what was committed: nothing to do, a newer one follows
    ├── StateError                  a store cannot be used as it is
    │   ├── StoreLockedError        another living process holds the store
    │   ├── StoreCorruptedError     RocksDB refused the files: they are moved aside and restored afresh
    │   ├── StoreOutdatedError      the store cannot be resumed from the changelog: it is restored afresh
    │   └── StoreDivergedError      a standby's store does not hold what the active's does: it is restored afresh
    ├── SnapshotError               a snapshot could not be sent, fetched or read; the changelog restores without it
    ├── RecordError                 one input record cannot be processed; names topic, partition, offset and key
    │   ├── DecodeError
    │   ├── ProcessError            the user's function raised
    │   └── RecordTooLargeError     state, output or dead letter is larger than its topic takes
    ├── StepError                   an expression of a step cannot be computed for a record: correct it (try_cast, ...)
    ├── WorkerError                 a Python worker died, or was ended, again and again in the same batch
    ├── AssignmentError             no valid assignment exists, or what was asked contradicts the newest one
    ├── InstanceError               an instance did not start, ended uncleanly, does not answer, or is not fit
    └── DeadlineError               something was waited for longer than allowed; says what
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

from airflow_provider.error_text import bounded

__all__ = [
    "AccessError",
    "AssignmentError",
    "BrokerUnreachableError",
    "ConfigurationError",
    "DeadlineError",
    "DecodeError",
    "ErrorClass",
    "FencedError",
    "InputLostError",
    "InstanceError",
    "LoginRefusedError",
    "OvertakenError",
    "ProcessError",
    "RecordError",
    "RecordTooLargeError",
    "SnapshotError",
    "StateError",
    "StatefulStreamsError",
    "StepError",
    "StoreCorruptedError",
    "StoreDivergedError",
    "StoreLockedError",
    "StoreOutdatedError",
    "TopicBlockedError",
    "TopicDamagedError",
    "TopicError",
    "TopicMismatchError",
    "TopicMissingError",
    "WorkerError",
]


_KEY_CHARS: Final = 200


class ErrorClass(Enum):
    """What is done about an error. `airflow_provider.error_decision` knows it for every error."""

    TRANSIENT = "transient"
    """It is tried again, after a pause that grows. Errors that nobody foresaw end the instance after some tries."""
    RECORD = "record"
    """The job's policy: the record is left out, or the task fails and waits for a person."""
    JOB = "job"
    """The task fails at once and waits for a person: every owner would meet the same."""
    ACCESS = "access"
    """The task fails at once and no failover moves it: every owner would meet the same. It is tried again, ever less
    often: what was taken away may be given back."""
    HOST = "host"
    """A standby on another instance takes over; where each has failed, the task is tried again, ever less often."""
    OWNER = "owner"
    """Another one owns the task: it waits for the newer assignment."""


class StatefulStreamsError(Exception):
    """The root of all errors of this package."""

    error_class: ClassVar[ErrorClass] = ErrorClass.HOST


class ConfigurationError(StatefulStreamsError):
    """A job, an argument or a connection is wrong. Correct it and start again."""

    error_class = ErrorClass.JOB


class AccessError(ConfigurationError):
    """The brokers refuse a right to the connection's user. What runs goes on once it is granted."""

    error_class = ErrorClass.ACCESS


class TopicError(StatefulStreamsError):
    """A topic is not as the job needs it. Nothing was processed."""

    error_class = ErrorClass.JOB


class TopicMissingError(TopicError):
    """A topic that must exist does not."""


class TopicMismatchError(TopicError):
    """A topic exists, but with other partitions, cleanup policy, replication or owner than needed."""


class TopicBlockedError(TopicError):
    """A transaction of another program hides part of a topic; what waits for its end goes on by itself."""

    error_class = ErrorClass.TRANSIENT


class TopicDamagedError(TopicError):
    """A record of a topic does not have its checksum; a copy of the state that has read past it goes on without it."""

    error_class = ErrorClass.HOST


class InputLostError(TopicError):
    """Input was deleted before it was read, or a log was cut behind it: the task cannot go on where it stopped."""


class BrokerUnreachableError(StatefulStreamsError):
    """No broker answered within the deadline."""

    error_class = ErrorClass.TRANSIENT


class LoginRefusedError(BrokerUnreachableError):
    """The brokers, or who gives the tokens, refuse the connection's user.

    A task is tried again, ever less often, because a password may be valid again; the clients that are open try by
    themselves. What starts, ends: each try brings an account nearer to being locked.
    """

    error_class = ErrorClass.ACCESS


class FencedError(StatefulStreamsError):
    """A newer owner exists. Nothing was written, and the caller must stop writing."""

    error_class = ErrorClass.OWNER


class OvertakenError(FencedError):
    """The generation in which a task was given is not above that of another owner's last commit.

    Either a newer assignment is on its way, or the newest was lost; the watcher publishes one above it then.
    """


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

    error_class = ErrorClass.TRANSIENT


class RecordError(StatefulStreamsError):
    """One input record cannot be processed.

    Args:
        offset: its offset, or None where the failure cannot be laid on one record.
        key: its key as text, or None.
        reason: what went wrong, in one line.
    """

    error_class = ErrorClass.RECORD

    def __init__(self, topic: str, partition: int, offset: int | None, key: str | None, reason: str) -> None:
        self.topic, self.partition, self.offset, self.key, self.reason = topic, partition, offset, key, reason
        at = "?" if offset is None else str(offset)
        super().__init__(f"{topic}[{partition}] at offset {at}, key {bounded(repr(key), _KEY_CHARS)}: {reason}")

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, int, int | None, str | None, str]]:
        """Pickle by the arguments, so that the error crosses from a worker to the driver whole."""
        return type(self), (self.topic, self.partition, self.offset, self.key, self.reason)


class DecodeError(RecordError):
    """A record's value is not what the job's schema says."""


class ProcessError(RecordError):
    """The job's operation cannot take a record: its function raised, its state cannot be kept, or a sum has no room."""


class RecordTooLargeError(RecordError):
    """What this record makes of its key's state, its output or its dead letter is larger than the topic takes."""


class StepError(StatefulStreamsError):
    """Spark cannot compute an expression of a step for a record's values; steps are outside of ``on_error``."""

    error_class = ErrorClass.JOB


class WorkerError(StatefulStreamsError):
    """A Python worker died, or was ended because it took too long, again and again in the same batch."""


class AssignmentError(StatefulStreamsError):
    """No valid assignment exists, or what was asked contradicts the newest one."""

    error_class = ErrorClass.JOB


class InstanceError(StatefulStreamsError):
    """An instance did not start, ended without a clean shutdown, does not answer, or its host is not fit to go on."""


class DeadlineError(StatefulStreamsError):
    """Something was waited for longer than allowed. The message says what."""

    error_class = ErrorClass.TRANSIENT
