from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.cli.drill import drill_text, exit_status_of, not_whole
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.main import main
from airflow_provider.control.conditions import Outcome, WaitResult
from airflow_provider.control.history.output_check import OutputCheck, OutputCount
from airflow_provider.control.history.record import HistoryKind, HistoryOutcome, HistoryRecord, RtoParts


def drill(outcome: HistoryOutcome, reason: str | None = None) -> HistoryRecord:
    return HistoryRecord(
        application_id="orders",
        kind=HistoryKind.DRILL,
        id="d1",
        cause="crash",
        at_ms=1,
        by="me",
        outcome=outcome,
        reason=reason,
        instances=("a",),
        rto=RtoParts(detected_ms=20, decided_ms=1_300, owned_ms=180, first_output_ms=None, total_ms=None),
    )


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (HistoryOutcome.PASSED, ExitStatus.FINE),
        (HistoryOutcome.FAILED, ExitStatus.NO),
        (HistoryOutcome.SKIPPED, ExitStatus.SKIPPED),
    ],
)
def test_script_is_told_how_it_ended(outcome: HistoryOutcome, status: ExitStatus) -> None:
    assert exit_status_of(drill(outcome)) is status


def test_rto_is_printed_by_its_parts_with_the_reason() -> None:
    lines = [line.split() for line in drill_text(drill(HistoryOutcome.FAILED, "it went on\n at 5")).splitlines()]

    assert lines[0] == ["drill", "(crash)", "of", "a:", "failed"]
    assert ["detection", "to", "decision", "1.30", "s"] in lines
    assert ["owned", "to", "the", "first", "output", "-"] in lines
    assert lines[-1] == ["it", "went", "on", "at", "5"]


def test_outputs_are_printed_by_count_or_with_the_reason_why_there_is_none() -> None:
    record = drill(HistoryOutcome.PASSED)
    counted = OutputCheck(counts=(OutputCount(topic="out", committed=1_200, found=1_200),))

    assert drill_text(dataclasses.replace(record, outputs=counted)).splitlines()[-1].split() == [
        "in", "out,", "of", "1,200", "committed", "1,200"
    ]  # fmt: skip
    unmeasured = drill_text(dataclasses.replace(record, outputs=OutputCheck(unmeasured="the job has\n no sink")))
    assert unmeasured.splitlines()[-1] == "  outputs were not counted: the job has no sink"


def test_blackout_that_cannot_be_read_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["drill", "orders", "--blackout", "monday"])

    assert ended.value.code == 2
    assert "Found the blackout 'monday', expected days, hours and a time zone" in capsys.readouterr().err


def test_reason_names_the_limit_that_was_given_or_that_waiting_does_not_help() -> None:
    def waited(outcome: Outcome) -> WaitResult:
        return WaitResult(outcome=outcome, waited_for="x", waited_s=4.5, seen="task 0_0 is restoring")

    assert not_whole(waited(Outcome.MET), 10.0) is None
    assert not_whole(waited(Outcome.WAITING), 10.0) == (
        "it is not whole after 10 s (--ready-timeout): task 0_0 is restoring"
    )
    assert not_whole(waited(Outcome.FAILED), 10.0) == (
        "it is not whole, and does not become so by itself: task 0_0 is restoring"
    )
