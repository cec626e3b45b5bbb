from __future__ import annotations

import pytest

from airflow_provider.control.records.status import TimeStatus
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.testing import InputRecord, JobTester

SHOWN = stream("shown", schema="ad STRING, shown BIGINT", event_time="shown", watermark="0 seconds")
CLICKS = stream("clicks", schema="ad STRING, clicked BIGINT", event_time="clicked", watermark="0 seconds")
ADS = table("ads", schema="ad STRING, page STRING", key="ad")


def time_status(spec: StageSpec, time: StreamTime) -> TimeStatus:
    return spec.operation.time_status(time, spec.input.sides)


def spec_of(job: StatefulJob) -> StageSpec:
    with JobTester(job) as tester:
        return tester._job.stages[-1].spec  # noqa: SLF001


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ((None, None), (None, None)),
        ((5, None), ("clicks", None)),
        ((None, 5), ("shown", None)),
        ((5, 5), (None, None)),
        ((5, 9), ("shown", 4)),
        ((9, 5), ("clicks", 4)),
    ],
    ids=str,
)
def test_of_two_streams_the_later_one_holds_time_back(
    marks: tuple[int | None, int | None], expected: tuple[str | None, int | None]
) -> None:
    spec = spec_of(StatefulJob("ads", SHOWN.join(CLICKS, on="ad", within="1 hour").sink("out")))
    mark = None if None in marks else min(m for m in marks if m is not None)
    by, ms = expected
    assert time_status(spec, StreamTime(9, mark, marks)) == TimeStatus(
        watermark_ms=mark, held_back_by=by, held_back_ms=ms
    )


def test_stream_that_waits_for_a_table_is_what_holds_time_back() -> None:
    spec = spec_of(StatefulJob("ads", CLICKS.join(ADS, on="ad", grace="1 second").sink("out")))
    held = [time_status(spec, StreamTime(9, 5, (5, table))) for table in (None, 0, 1_005, 1_009)]
    assert [(time.held_back_by, time.held_back_ms) for time in held] == [
        *[(None, None)] * 3,
        ("clicks", 4),
    ]
    spec = spec_of(StatefulJob("ads", CLICKS.join(ADS, on="ad", history="1 second").sink("out")))
    assert time_status(spec, StreamTime(9, None, (5, 9_000))) == TimeStatus()


def test_heartbeat_says_what_holds_time_back() -> None:
    with JobTester(StatefulJob("ads", SHOWN.join(CLICKS, on="ad", within="1 hour").sink("out"))) as tester:
        tester.pipe_input(InputRecord({"ad": "a", "shown": 7}, topic="shown"))
        times = [task.status().time for task in tester._active.tasks.values()]  # noqa: SLF001
        assert times[-1] == TimeStatus(held_back_by="clicks")
        assert times[0] == TimeStatus(watermark_ms=7)
