"""What a person sees: lines that stay or move, each step of the failover, what came out, and what can be done next."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider.control.history.report import FailoverReport, report
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.judge import Verdict
from airflow_provider.demo.publisher import Publisher
from airflow_provider.demo.results import Timeline

_PLAIN_EVERY_S: Final = 10.0
_INDENT: Final = " " * 9


class Screen:
    """Lines on a stream. On a terminal the last lines move; elsewhere they are printed now and then.

    No line is cut: a terminal wraps what is wider than itself, a file keeps it whole.

    Args:
        stream: where the lines go; None is standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stdout
        self._console = Console(file=stream, highlight=False, markup=False)
        self._moves = stream.isatty() and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._began = time.monotonic()
        self._printed_at = 0.0

    def say(self, text: str) -> None:
        """Print a step that was reached; it stays."""
        self._print(f"{self._elapsed()}{text}")

    def show(self, *lines: str) -> None:
        """Show the present state; the next one takes its place."""
        text = f"\n{_INDENT}".join([self._elapsed() + lines[0], *lines[1:]])
        if self._moves:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(Text(text), refresh=True)
        elif (now := time.monotonic()) - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = now
            self._print(text)

    def clear(self) -> None:
        """Remove the lines that move."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def result(self, title: str, right: bool, rows: Iterable[tuple[str, str]], remarks: Iterable[str] = ()) -> None:
        """Print a title, two columns under it, names to the left and figures to the right, and remarks."""
        self.clear()
        table = Table(box=box.HORIZONTALS, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        for row in rows:
            table.add_row(*row)
        self._print("")
        self._print(title, style="bold green" if right else "bold red")
        self._console.print(table)
        for remark in remarks:
            self._print(remark)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=not self._moves)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:5.0f} s  "


def bar(done: int, total: int, width: int = 24) -> str:
    """Return a bar that is full when `done` is `total`."""
    share = min(1.0, done / total) if total else 1.0
    full = int(share * width)
    return f"[{'#' * full}{'.' * (width - full)}] {share:4.0%}"


class Narrator:
    """Reports each step of a failover once, when it first stands in the topics, and how far the data is.

    Args:
        stages: the numbers of those that read the flights.
    """

    def __init__(self, screen: Screen, stages: Sequence[int] = (0,)) -> None:
        self._screen, self._stages = screen, stages
        self._known: FailoverReport | None = None

    def progress(self, view: ControlView, publisher: Publisher) -> None:
        """Show how much is published and processed, and which tasks each instance has."""
        self._screen.show(
            f"{bar(publisher.published, publisher.total)} published {publisher.published:,}, "
            f"processed {processed(view, self._stages):,} flights",
            *instance_lines(view),
        )

    def failover(self, view: ControlView, instance: str, incarnation: int, killed_ms: int) -> FailoverReport | None:
        """Return what is known of the failover of one process of an instance; None before it was answered."""
        found = next(
            (
                report(record, view)
                for record in view.incidents.values()
                if (record.incident.instance, record.incident.incarnation) == (instance, incarnation)
            ),
            None,
        )
        if found is not None:
            known, self._known = self._known, _with_times(found, self._known)
            self._report(known, self._known, killed_ms)
        return self._known

    def _report(self, known: FailoverReport | None, found: FailoverReport, killed_ms: int) -> None:
        def after(at_ms: int | None) -> str:
            return "?" if at_ms is None else f"{(at_ms - killed_ms) / 1000:.1f} s after the kill"

        say = self._screen.say
        if known is None:
            say(f"  detected {after(found.detected_at_ms)}: {found.evidence}")
            say(f"  decided {after(found.decided_at_ms)} by the failover DAG, generation {found.generation}")
            for line in found.decisions:
                say(f"    {line}")
        if found.owned_at_ms and not (known and known.owned_at_ms):
            say(f"  promoted {after(found.owned_at_ms)}")
        if found.first_commit_at_ms and not (known and known.first_commit_at_ms):
            say(f"  all its tasks commit again {after(found.first_commit_at_ms)}")
        if found.resolved_at_ms and not (known and known.resolved_at_ms):
            say(f"  every task has a warm standby again {after(found.resolved_at_ms)}")


def _with_times(found: FailoverReport, known: FailoverReport | None) -> FailoverReport:
    """With the times that stood there before a task moved once more, onto the replacement."""
    if known is None:
        return found
    return dataclasses.replace(
        found,
        owned_at_ms=found.owned_at_ms or known.owned_at_ms,
        first_commit_at_ms=found.first_commit_at_ms or known.first_commit_at_ms,
        restored_records=max(found.restored_records, known.restored_records),
    )


def instance_lines(view: ControlView) -> list[str]:
    """Return a line for each instance: its state and how many tasks it is active and standby for."""
    assignment, lines = view.assignment, []
    for name, status in sorted(view.statuses.items()):
        active = len(assignment.active_on(name)) if assignment else 0
        standby = len(assignment.standby_on(name)) if assignment else 0
        lines.append(f"{name} {status.state.value}: active for {active} tasks, standby for {standby}")
    return lines


def processed(view: ControlView, stages: Sequence[int]) -> int:
    """Return how many records all of some stages of one source have committed, as of the actives' last heartbeats."""
    return min(sum(offset or 0 for offset in positions(view, stage).values()) for stage in stages)


def positions(view: ControlView, stage: int) -> dict[int, int | None]:
    """By partition of a stage's source, the offset of the next record to process, as of the active's last heartbeat."""
    found: dict[int, int | None] = {}
    for task_id, task in view.assignment.tasks.items() if view.assignment else ():
        if task_id.stage == stage:
            status = view.statuses.get(task.active or "")
            latest = status.task(task_id) if status and status.state is not InstanceState.ENDED else None
            found[task_id.partition] = latest.source_offset if latest else None
    return found


def result_title(right: bool) -> str:
    """Return what came out, in one line."""
    if right:
        return "Right: every aircraft and every airport's hour is what pandas computes, and nothing came out twice."
    return "WRONG: what came out is not what pandas computes."


def result_rows(timeline: Timeline, verdict: Verdict, flights: int, outputs: int) -> list[tuple[str, str]]:
    """Return name and figure of every row."""

    def seconds(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{value:{sign}.2f} s"

    return [
        *((name, seconds(after, "+")) for name, after in timeline.steps()),
        ("RTO: kill to output of all its tasks", seconds(timeline.rto_s)),
        ("changelog records replayed", "-" if timeline.replayed is None else f"{timeline.replayed:,}"),
        ("flights: input records, one per departure", f"{flights:,}"),
        ("outputs: one per key and micro-batch", f"{outputs:,}"),
        ("aircraft compared with pandas", f"{verdict.aircraft:,}"),
        ("hours of airports compared with pandas", f"{verdict.airport_hours:,}"),
        ("different", f"{len(verdict.different):,}"),
        ("duplicated", f"{len(verdict.repeated):,}"),
        ("miscounted", f"{len(verdict.miscounted):,}"),
    ]


def page_address(address: str, application_id: str) -> str:
    """Of an application's page in Airflow's UI."""
    return f"{address}/plugin/streams?application={application_id}"


def next_steps(address: str, bootstrap_servers: str, application_id: str, drill: str) -> tuple[str, ...]:
    """The lines that a kept demo closes with."""
    python = os.path.relpath(sys.executable)
    return (
        f"All is left up. Airflow, without a login: {address}  Kafka: {bootstrap_servers}",
        f"Look at the application: {page_address(address, application_id)}",
        f"  {python} -m airflow_provider status {application_id} --bootstrap-servers {bootstrap_servers}",
        f"Kill an instance again: {address}/dags/{drill}, Trigger",
        "  Failover and repair follow by themselves. All flights are read, so the drill says that it had no input.",
        "A job of your own needs another Airflow than this one, in ten minutes: docs/first-job.md",
        "'make down' ends it.",
    )
