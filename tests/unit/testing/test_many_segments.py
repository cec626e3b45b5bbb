"""More segments than a commit record names: a watermark that was made longer, a side that waits for the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.operations.batch import StoreReader
from airflow_provider.streaming.terms.windows import SessionWindow, Window
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing import InputRecord, JobTester

T0 = 1_700_000_000_000
MOST_BYTES = 32 << 10


def source(watermark: str) -> Stream:
    return stream("in", schema="k STRING, at BIGINT", key="k", event_time="at", watermark=watermark)


def windowed(windows: Window | SessionWindow, watermark: str) -> StatefulJob:
    return StatefulJob("w", source(watermark).group_by("k", windows).aggregate(F.count().alias("n")).sink("out"))


def once(watermark: str) -> StatefulJob:
    return StatefulJob("w", source(watermark).drop_duplicates("k", within="10 seconds").sink("out"))


CHANGED: dict[str, Callable[[str], StatefulJob]] = {
    "windows": lambda watermark: windowed(window("at", "10 seconds"), watermark),
    "sessions": lambda watermark: windowed(session_window("at", "10 seconds"), watermark),
    "duplicates": once,
}


def the_task(tester: JobTester) -> Task:
    """The one that keeps the state."""
    return max(tester._active.tasks.values(), key=lambda task: task.id)  # noqa: SLF001


def check_digest(task: Task) -> None:
    assert f"{task.replica.scan().result():016x}" == task.digest


def record_bytes(task: Task) -> int:
    record = task.commit_record
    assert record is not None
    return len(record.to_bytes())


def test_late_row_of_a_session_looks_up_its_own_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = list[int]()
    get_many = StoreReader.get_many

    def counting(reader: StoreReader, keys: Sequence[bytes]) -> list[bytes | None]:
        looked_up.append(len(keys))
        return get_many(reader, keys)

    monkeypatch.setattr(StoreReader, "get_many", counting)
    with JobTester(CHANGED["sessions"]("0 seconds")) as tester:
        tester.pipe_inputs([{"k": "a", "at": T0}])
        tester.restart(job=CHANGED["sessions"]("1 hour"))
        tester.pipe_inputs([{"k": "a", "at": T0 + n * 1_000_000} for n in range(4)])
        looked_up.clear()
        tester.pipe_inputs([{"k": f"k{n}", "at": T0 + 3_000_000} for n in range(100)] + [{"k": "a", "at": T0 + 5_000}])
        segments = 3_010_000 // 2_500  # of a quarter of the gap
        assert segments <= sum(looked_up) < segments + 100 * 10
        assert tester.states()["a@2023-11-14T22:13:20.000Z"]["n"] == 3
        check_digest(the_task(tester))


@pytest.mark.parametrize("job_of", CHANGED.values(), ids=CHANGED)
def test_commit_record_stays_small_when_the_watermark_is_made_longer(job_of: Callable[[str], StatefulJob]) -> None:
    with JobTester(job_of("0 seconds")) as tester:
        tester.pipe_inputs([{"k": "k", "at": T0}])
        tester.restart(job=job_of("7 days"))
        for begin in (0, 400, 800):
            tester.pipe_inputs([{"k": "k", "at": T0 + n * 21_000} for n in range(begin, begin + 400)])
            assert record_bytes(the_task(tester)) < MOST_BYTES
        check_digest(the_task(tester))
        kept = tester.states()

        tester.restart(store="empty")

        assert tester.states() == kept
        assert len(kept) >= 1_200
        tester.pipe_inputs([{"k": "k", "at": T0 + 9 * 86_400_000}])
        check_digest(the_task(tester))
        assert len(list(the_task(tester).replica.items())) == len(tester.states()) == 1


def test_commit_record_stays_small_while_a_side_of_a_join_waits_for_the_other() -> None:
    shown, clicked = (
        stream(name, schema=f"ad STRING, {name} BIGINT", event_time=name, watermark="0 seconds")
        for name in ("shown", "clicked")
    )
    job = StatefulJob("ads", shown.join(clicked, on="ad", within="10 seconds").sink("out"))

    def click(tester: JobTester, number: int) -> int:
        tester.pipe_inputs([InputRecord({"ad": "a", "clicked": T0 + number * 3_000}, topic="clicked")])
        return len(tester.read_output())

    with JobTester(job) as tester:
        for begin in (0, 500):
            many = range(begin, begin + 500)
            tester.pipe_inputs([InputRecord({"ad": "a", "shown": T0 + n * 3_000}, topic="shown") for n in many])
            assert record_bytes(the_task(tester)) < MOST_BYTES
        check_digest(the_task(tester))

        assert click(tester, 900) == 7

        check_digest(the_task(tester))
        assert record_bytes(the_task(tester)) < MOST_BYTES
        tester.promote_standby()
        assert click(tester, 998) == 5
        check_digest(the_task(tester))
        assert len(list(the_task(tester).replica.items())) < 60
