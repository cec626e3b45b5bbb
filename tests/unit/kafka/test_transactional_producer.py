"""When a further transaction may follow on the same producer, by what its end took."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.kafka import transactional_producer
from airflow_provider.kafka.transactional_producer import TransactionalProducer, flush


class Client:
    """Ends transactions, each in as many seconds as it is told, or not at all."""

    def __init__(self, ends: Iterator[float | None], clock: list[float]) -> None:
        self._ends, self._clock = ends, clock

    def begin_transaction(self) -> None: ...

    def flush(self, timeout: float) -> int:
        return 0

    def commit_transaction(self, timeout: float) -> None:
        took_s = next(self._ends)
        if took_s is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self._clock[0] += took_s

    abort_transaction = commit_transaction


def producer(monkeypatch: pytest.MonkeyPatch, *ends: float | None) -> TransactionalProducer:
    clock = [0.0]
    client = Client(iter(ends), clock)
    monkeypatch.setattr(transactional_producer, "Producer", lambda *_, **__: client)
    monkeypatch.setattr(transactional_producer, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return TransactionalProducer({}, "app-0_0", "orders", 1.0)


def test_end_that_came_before_any_repetition_lets_another_transaction_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    made = producer(monkeypatch, 0.01, 0.79)

    for _ in range(2):
        made.begin()
        made.commit()

    assert made.reusable


def test_end_that_may_have_been_repeated_lets_none_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    made = producer(monkeypatch, 0.8)
    made.begin()
    made.commit()

    assert not made.reusable
    with pytest.raises(RuntimeError, match="Make another and fence"):
        made.begin()


def test_quick_abort_after_a_commit_that_failed_proves_nothing_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = producer(monkeypatch, None, 0.01)
    made.begin()
    with pytest.raises(KafkaException):
        made.commit()

    made.abort()

    assert not made.reusable


class Failing:
    """Fails as the client does where a fatal error is raised while it calls a callback."""

    def __init__(self, cause: Exception | None) -> None:
        self._cause = cause

    def flush(self, timeout: float) -> int:
        raise SystemError(
            "<method 'append' of 'list' objects> returned a result with an exception set"
        ) from self._cause


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param(
            KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, id="may-write-nowhere"
        ),
        pytest.param(KafkaError._FENCED, KafkaError._FENCED, id="another"),
    ],
)
def test_fatal_error_that_a_callback_hid_is_told(code: int, told: int) -> None:
    hidden = KafkaException(KafkaError(code, "refused", fatal=True))

    with pytest.raises(KafkaException) as found:
        flush(Failing(hidden), 1.0)  # type: ignore[arg-type]

    assert found.value.args[0].code() == told


def test_system_error_of_another_cause_is_not_hidden() -> None:
    with pytest.raises(SystemError, match="append"):
        flush(Failing(None), 1.0)  # type: ignore[arg-type]
