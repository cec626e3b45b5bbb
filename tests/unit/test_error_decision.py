from __future__ import annotations

import pytest

from airflow_provider import errors
from airflow_provider.error_decision import class_of, class_of_kind, is_permanent, retry_pause_s
from airflow_provider.errors import ErrorClass

TYPED = [getattr(errors, name) for name in errors.__all__ if name != "ErrorClass"]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("BrokerUnreachableError", ErrorClass.TRANSIENT),
        ("KafkaException", ErrorClass.TRANSIENT),
        ("ConnectionResetError", ErrorClass.TRANSIENT),
        ("DecodeError", ErrorClass.RECORD),
        ("RecordTooLargeError", ErrorClass.RECORD),
        ("ConfigurationError", ErrorClass.JOB),
        ("AccessError", ErrorClass.ACCESS),
        ("LoginRefusedError", ErrorClass.ACCESS),
        ("TopicMissingError", ErrorClass.JOB),
        ("InputLostError", ErrorClass.JOB),
        ("StepError", ErrorClass.JOB),
        ("AnalysisException", ErrorClass.JOB),
        ("SyntaxError", ErrorClass.JOB),
        ("ModuleNotFoundError", ErrorClass.JOB),
        ("KeyError", ErrorClass.JOB),
        ("RecursionError", ErrorClass.JOB),
        ("UnicodeDecodeError", ErrorClass.JOB),
        ("StoreLockedError", ErrorClass.HOST),
        ("WorkerError", ErrorClass.HOST),
        ("PermissionError", ErrorClass.HOST),
        ("MemoryError", ErrorClass.HOST),
        ("FencedError", ErrorClass.OWNER),
        ("OvertakenError", ErrorClass.OWNER),
        ("ErrorThatNobodyKnows", ErrorClass.HOST),
        (None, ErrorClass.HOST),
    ],
)
def test_every_kind_has_one_class(kind: str | None, found: ErrorClass) -> None:
    assert class_of_kind(kind) is found


@pytest.mark.parametrize("kind", TYPED, ids=lambda kind: kind.__name__)
def test_error_and_its_name_have_the_same_class(kind: type[errors.StatefulStreamsError]) -> None:
    raised = kind("t", 0, 1, "k", "why") if issubclass(kind, errors.RecordError) else kind("why")

    assert class_of(raised) is class_of_kind(kind.__name__) is kind.error_class


def test_what_every_owner_meets_is_permanent() -> None:
    assert [is_permanent(kind) for kind in ("ProcessError", "AnalysisException", "StateError", None)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("kind", ["AccessError", "LoginRefusedError", "StateError", "OSError", None])
def test_failure_whose_cause_is_outside_is_tried_again_ever_less_often(kind: str | None) -> None:
    pauses = [retry_pause_s(kind, failures) or 0.0 for failures in range(1, 100)]

    assert pauses == sorted(pauses)
    assert pauses[1] == 2 * pauses[0] > 0
    assert pauses[-1] == 300.0


@pytest.mark.parametrize("kind", ["ConfigurationError", "DecodeError", "InputLostError", "KeyError", "WorkerError"])
def test_failure_of_the_job_or_its_data_is_not_tried_again_by_itself(kind: str) -> None:
    assert retry_pause_s(kind, 1) is None
