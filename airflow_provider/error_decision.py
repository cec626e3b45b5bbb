"""What is done about an error, decided once: the worker, the driver, the launcher and the failover ask here.

The same table, for users, is in ``docs/errors.md``.
"""

from __future__ import annotations

import builtins
from typing import Final

from airflow_provider import errors
from airflow_provider.errors import ErrorClass, StatefulStreamsError

_FIRST_RETRY_S: Final = {ErrorClass.ACCESS: 5.0, ErrorClass.HOST: 30.0}
"""By the class of errors whose cause is outside of the job and its data. A failover answers those of a host before."""
_LONGEST_RETRY_S: Final = 300.0
"""Rarely enough to cost nothing, and soon enough for a person who has given something back."""

# Code that raises one of these does so wherever it runs. The first that fits decides.
_BUILTIN: Final[tuple[tuple[type[BaseException], ErrorClass], ...]] = (
    (ConnectionError, ErrorClass.TRANSIENT),
    (TimeoutError, ErrorClass.TRANSIENT),
    (MemoryError, ErrorClass.HOST),
    (OSError, ErrorClass.HOST),
    (ArithmeticError, ErrorClass.JOB),
    (AssertionError, ErrorClass.JOB),
    (AttributeError, ErrorClass.JOB),
    (ImportError, ErrorClass.JOB),
    (LookupError, ErrorClass.JOB),
    (NameError, ErrorClass.JOB),
    (NotImplementedError, ErrorClass.JOB),
    (RecursionError, ErrorClass.JOB),
    (SyntaxError, ErrorClass.JOB),
    (TypeError, ErrorClass.JOB),
    (ValueError, ErrorClass.JOB),
)

# Of Spark, pyarrow and the two Kafka clients, whose classes not every process can import. What brokers refuse Spark's
# client has a type of ours by then (`streaming/driver/spark/spark_error.py`).
_BY_NAME: Final = {
    **dict.fromkeys(
        (
            "AnalysisException",
            "ArrowInvalid",
            "ArrowNotImplementedError",
            "ArrowTypeError",
            "ParseException",
            "PicklingError",
            "PySparkAttributeError",
            "PySparkTypeError",
            "PySparkValueError",
        ),
        ErrorClass.JOB,
    ),
    **dict.fromkeys(
        ("DisconnectException", "KafkaException", "TimeoutException", "UnknownTopicOrPartitionException"),
        ErrorClass.TRANSIENT,
    ),
}


def class_of(error: BaseException) -> ErrorClass:
    """What is done about an error that was raised here."""
    return error.error_class if isinstance(error, StatefulStreamsError) else class_of_kind(type(error).__name__)


def class_of_kind(kind: str | None) -> ErrorClass:
    """What is done about an error that another process reported.

    Args:
        kind: the name of the error's class, without its module; None where it is not known.

    Returns:
        `ErrorClass.HOST` for what is not in the table: it may be the host, so another instance tries once.
    """
    ours = getattr(errors, kind or "", None)
    if isinstance(ours, type) and issubclass(ours, StatefulStreamsError):
        return ours.error_class
    builtin = getattr(builtins, kind or "", None)
    if isinstance(builtin, type) and issubclass(builtin, BaseException):
        return next((found for base, found in _BUILTIN if issubclass(builtin, base)), ErrorClass.HOST)
    return _BY_NAME.get(kind or "", ErrorClass.HOST)


def is_permanent(kind: str | None) -> bool:
    """Whether every owner would meet the same error again, so that a failover cannot help."""
    return class_of_kind(kind) in (ErrorClass.JOB, ErrorClass.RECORD, ErrorClass.ACCESS)


def retry_pause_s(kind: str | None, failures: int) -> float | None:
    """How long a task that has failed waits before it is tried again without a person, in seconds.

    A cause outside of the job (a login, a right, a disk, a host) may be gone by then, and nobody tells. Of the job and
    its data nothing changes by itself; a worker that dies again and again does so over the same records.

    Args:
        failures: how often in a row it has failed so, from 1.

    Returns:
        Twice as long each time, up to five minutes; None where only a newer generation tries it again.
    """
    first_s = _FIRST_RETRY_S.get(class_of_kind(kind))
    if first_s is None or kind == errors.WorkerError.__name__:
        return None
    return float(min(first_s * 2 ** min(max(0, failures - 1), 16), _LONGEST_RETRY_S))


def stops_a_running_task(kind: str | None) -> bool:
    """Whether a task that was processing stops at once with an error that every try meets.

    A topic that is missing does not do it: a broker that has just started may not know every topic yet. Whether one is
    missing indeed, the watch over topics finds out.
    """
    found = class_of_kind(kind)
    return found in (ErrorClass.JOB, ErrorClass.ACCESS) and kind != errors.TopicMissingError.__name__
