"""docs/metrics.md has the table of the code, and the board and the alerts use its names and can fire."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider.control.failover.detection import detect
from airflow_provider.control.records.incident import IncidentRecord, Recovery, Unanswered, Watcher
from airflow_provider.control.records.status import (
    CertificateStatus,
    DiskStatus,
    InstanceState,
    InstanceStatus,
    SourceStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.telemetry.exposition import exposition
from airflow_provider.control.telemetry.metrics import METRICS, ApplicationFigures, InstanceFigures, Level
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import active, assigned, instance, standby
from tests.docs.commands import ROOT
from tests.docs.promql import Series, fires

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
BOARD: Mapping[str, Any] = json.loads((ROOT / "docs" / "monitoring" / "grafana.json").read_text(encoding="utf-8"))
RULES: Sequence[Mapping[str, Any]] = yaml.safe_load(
    (ROOT / "docs" / "monitoring" / "alerts.yml").read_text(encoding="utf-8")
)["groups"][0]["rules"]
ALERTS = {rule["alert"]: rule for rule in RULES}
EXPRESSIONS = [
    *(target["expr"] for panel in BOARD["panels"] for target in panel["targets"]),
    *(variable["query"] for variable in BOARD["templating"]["list"]),
    *(rule["expr"] for rule in RULES),
]


def tables() -> str:
    """The tables of the page, a line for each metric."""
    lines = []
    for level in Level:
        tags = ", ".join(f"`{tag}`" for tag in level.tags)
        lines += [
            f"### Of each {level.value}",
            "",
            f"Tags: {tags}.",
            "",
            "| name | unit | kind | |",
            "|---|---|---|---|",
        ]
        for metric in METRICS:
            if metric.level is level:
                name = (
                    f"`{metric.name}`"
                    + (" (K)" if metric.kafka else "")
                    + (f" by `{metric.tag}`" if metric.tag else "")
                )
                lines.append(f"| {name} | {metric.unit.strip('{}')} | {metric.kind.value} | {metric.meaning} |")
        lines.append("")
    return "\n".join(lines)


def test_page_has_the_table_of_the_code() -> None:
    assert PAGE.partition("<!-- the table of the code -->\n\n")[2].partition("<!-- its end -->")[0] == tables()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_board_and_alerts_use_names_and_tags_of_the_table(expression: str) -> None:
    known = {metric.prometheus_name: metric for metric in METRICS}

    for name, tags in re.findall(r"(stateful_streams_\w+)(?:\{([^}]*)\})?", expression):
        assert name in known
        used = re.findall(r"(\w+)\s*=~?\s*\"", tags)
        assert set(used) <= set(known[name].tags)
    grouped = [tag.strip() for tags in re.findall(r"by \(([^)]*)\)", expression) for tag in tags.split(",")]
    assert set(grouped) <= {tag for name in re.findall(r"stateful_streams_\w+", expression) for tag in known[name].tags}


def test_board_has_no_panel_twice_and_none_over_another() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


Look = tuple[ApplicationFigures | None, tuple[InstanceFigures, ...]]

HEALTHY = (
    instance("a", active(0, source=SourceStatus(lag_records=5)), standby(1), disk=DiskStatus("/s", 1, 1 << 30)),
    instance("b", active(1), standby(0), disk=DiskStatus("/s", 1, 1 << 30)),
)


def look(*statuses: InstanceStatus, unanswered: int = 0, incidents: Iterable[IncidentRecord] = ()) -> Look:
    """What the watcher and the living instances tell at one moment."""
    view = ControlView("app", assignment=assigned("a b", "b a"), statuses={one.instance: one for one in statuses})
    view.incidents = {record.incident.id: record for record in incidents}
    told = (Unanswered(incident="i", what="a ended", reported_at_ms=0),) * unanswered
    watcher = Watcher(application_id="app", host="h", pid=1, began_at_ms=0, sent_at_ms=0, unanswered=told)
    living = tuple(InstanceFigures(one) for one in statuses if one.state.alive)
    return ApplicationFigures(view, {}, Timeouts(), watcher), living


def series(looks: Mapping[int, Look]) -> Series:
    """By name and tags, the values at times in seconds, as Prometheus reads them from the exposition."""
    found: Series = {}
    for at_s, (application, instances) in looks.items():
        samples = [one for figures in (application, *instances) if figures is not None for one in figures.samples()]
        for family in text_string_to_metric_families(exposition(samples)):
            for one in family.samples:
                found.setdefault((one.name, frozenset(one.labels.items())), []).append((at_s, one.value))
    return found


def steadily(change: Callable[[int], TaskStatus]) -> dict[int, Look]:
    """An hour of a's first task that changes, a look a minute."""
    a, b = HEALTHY
    return {60 * at: look(dataclasses.replace(a, tasks=(change(at), a.tasks[1])), b) for at in range(61)}


def diverged(times: int) -> TaskStatus:
    return dataclasses.replace(standby(0), certificate=CertificateStatus(divergences=times))


def failover(resolved_at_ms: int | None, rto_ms: int) -> IncidentRecord:
    a, b = ENDED, HEALTHY[1]
    view = ControlView("app", assignment=assigned("a b", "b a"), statuses={"a": a, "b": b})
    (incident,) = detect(view.assignment, view.statuses, {}, Timeouts())
    return IncidentRecord(
        incident=incident,
        generation=2,
        detected_at_ms=None,
        decided_at_ms=1_000,
        answered_by="run",
        failed_at_ms=500,
        resolved_at_ms=resolved_at_ms,
        recovery=Recovery(resumed_offsets={}, owned_at_ms=None, first_commit_at_ms=500 + rto_ms),
    )


ENDED = dataclasses.replace(HEALTHY[0], state=InstanceState.ENDED, tasks=())
FAILED = dataclasses.replace(HEALTHY[0], tasks=(active(0, TaskState.FAILED, error="no"), standby(1)))
SCENES: Mapping[str, Mapping[int, Look]] = {
    "StreamTasksStandStill": {0: look(ENDED, HEALTHY[1])},
    "StreamFailureUnanswered": {0: look(ENDED, HEALTHY[1], unanswered=1)},
    "StreamNotWatched": {0: (None, look(*HEALTHY)[1])},
    "StreamTasksUnprotected": {0: look(ENDED, HEALTHY[1])},
    "StreamInstanceLost": {0: look(ENDED, HEALTHY[1])},
    "StreamRepairUnderWayForLong": {0: look(*HEALTHY, incidents=[failover(None, 1_000)])},
    "StreamFailoverSlow": {0: look(*HEALTHY, incidents=[failover(60_000, 45_000)])},
    "StreamTaskFailed": {0: look(FAILED, HEALTHY[1])},
    "StreamTaskStalled": steadily(lambda at: active(0, stalled_s=60.0 * at, source_lag=5)),
    "StreamLagGrows": steadily(lambda at: active(0, source=SourceStatus(lag_records=1_000 * at))),
    "StreamRecordsLeftOut": steadily(lambda at: active(0, failed_records=at // 30)),
    "StreamInputLost": steadily(lambda at: active(0, lost_records=at // 30)),
    "StreamStandbyDiverged": {
        60 * at: look(HEALTHY[0], dataclasses.replace(HEALTHY[1], tasks=(active(1), diverged(at // 30))))
        for at in range(61)
    },
    "StreamDiskFull": {
        60 * at: look(dataclasses.replace(HEALTHY[0], disk=DiskStatus("/s", 1, (1 << 30) - (at << 24))), HEALTHY[1])
        for at in range(61)
    },
}


def test_every_alert_has_a_scene() -> None:
    assert list(SCENES) == list(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_fires_on_what_the_code_tells_of_such_a_case(alert: str) -> None:
    assert fires(ALERTS[alert]["expr"], series(SCENES[alert]), now_s=max(SCENES[alert]))


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_is_silent_while_all_is_well(alert: str) -> None:
    whole = {60 * at: look(*HEALTHY, incidents=[failover(60_000, 2_000)]) for at in range(61)}

    assert not fires(ALERTS[alert]["expr"], series(whole), now_s=3_600)


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_names_only_tags_that_its_series_have(alert: str) -> None:
    rule = ALERTS[alert]
    text = " ".join(rule["annotations"].values())
    (name,) = re.findall(r"stateful_streams_\w+", rule["expr"])
    (tags,) = [metric.tags for metric in METRICS if metric.prometheus_name == name]

    assert set(re.findall(r"\$labels\.(\w+)", text)) <= set(tags)
