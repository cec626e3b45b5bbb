"""What is done about an error, decided once: the worker, the driver, the launcher and the failover ask here.

The same table, with what is seen and what a person does, is in ``docs/faults.md``.
"""

from __future__ import annotations

import builtins
from typing import Final

from airflow_provider import errors
from airflow_provider.errors import ErrorClass, StatefulStreamsError

__all__ = ["class_of", "class_of_kind", "is_permanent", "stops_a_running_task"]

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

# Of Spark, pyarrow and the two Kafka clients, whose classes not every process can import.
_BY_NAME: Final = {
    **dict.fromkeys(
        (
            "AnalysisException",
            "ArrowInvalid",
            "ArrowNotImplementedError",
            "ArrowTypeError",
            "ClusterAuthorizationException",
            "GroupAuthorizationException",
            "ParseException",
            "PicklingError",
            "PySparkAttributeError",
            "PySparkTypeError",
            "PySparkValueError",
            "SaslAuthenticationException",
            "TopicAuthorizationException",
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
    """Whether every owner would meet the same error again, so that only a person can help.

    Args:
        kind: as of `class_of_kind`.
    """
    return class_of_kind(kind) in (ErrorClass.JOB, ErrorClass.RECORD)


def stops_a_running_task(kind: str | None) -> bool:
    """Whether a task that was processing stops at once with an error of the job's.

    A topic that is missing does not do it: a broker that has just started may not know every topic yet. Whether one is
    missing indeed, the watch over topics finds out.

    Args:
        kind: as of `class_of_kind`.
    """
    return class_of_kind(kind) is ErrorClass.JOB and kind != errors.TopicMissingError.__name__
