"""One word for an application, why, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.common.causes import causes


class Word(Enum):
    """Whether every task is processed and protected now."""

    SAFE = "safe"
    """Every task is processed and has its warm standbys, and somebody watches."""
    DEGRADED = "degraded"
    """Every task is processed, but a failure would cost more than it should, or records are left out."""
    STANDING_STILL = "standing still"
    """A task is not processed."""


class Step(Enum):
    """A part of the runbook, by its anchor in ``docs/runbook.md``."""

    WHERE_TO_LOOK = "where-to-look"
    TOOLS = "tools"
    UNDER_WAY = "a-failover-a-start-or-a-restore-is-under-way"
    NO_FAILOVER = "no-failover-run"
    HOLD = "decision-hold"
    STANDS_STILL = "a-task-stands-still"
    TABLE = "a-stream-waits-for-its-table"
    LEFT_OUT = "records-that-are-left-out"
    WAIT = "decision-wait"
    RECORD_ERROR = "a-task-failed-with-a-record-error"
    DIVERGED = "a-store-diverged"
    DAMAGED = "a-topic-is-damaged"
    MISSING = "changelog-missing-or-mismatched"
    DISK = "disk-full"
    GONE = "an-instance-is-gone"
    ALL_GONE = "all-instances-gone"
    STOPPED = "all-instances-were-stopped"
    BROKERS = "brokers-away"
    DEPLOY = "a-deploy-that-does-not-come-up"
    LAG = "lag-that-grows"


_OF_ERRORS: Final = {
    "DecodeError": Step.RECORD_ERROR,
    "ProcessError": Step.RECORD_ERROR,
    "RecordError": Step.RECORD_ERROR,
    "StoreDivergedError": Step.DIVERGED,
    "TopicDamagedError": Step.DAMAGED,
    "TopicMismatchError": Step.MISSING,
    "TopicMissingError": Step.MISSING,
    "StateError": Step.DISK,
    "BrokerUnreachableError": Step.BROKERS,
}


def step_of_error(kind: str | None) -> Step | None:
    """Which part of the runbook is about an error, by its class's name; None where none is."""
    return _OF_ERRORS.get(kind or "")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Args:
        means: the word that an application has at the best while it is so.
    """

    text: str
    means: Word = Word.DEGRADED
    step: Step = Step.WHERE_TO_LOOK


@dataclass(frozen=True)
class Verdict:
    """What is said of an application at a glance.

    Args:
        reasons: each cause once, what stands still first; none where it is safe.
    """

    word: Word
    reasons: tuple[Finding, ...] = ()


def verdict(findings: Iterable[Finding], instances: Collection[str] = ()) -> Verdict:
    """The worst of what was found, and all of it by its cause.

    Args:
        instances: the names of the application's instances (see `causes`).
    """
    by_kind: dict[tuple[Word, Step], list[str]] = {}
    for finding in findings:
        by_kind.setdefault((finding.means, finding.step), []).append(finding.text)
    worst_first = sorted(by_kind.items(), key=lambda one: one[0][0] is not Word.STANDING_STILL)
    reasons = tuple(
        Finding(text, means, step) for (means, step), texts in worst_first for text in causes(texts, instances)
    )
    return Verdict(reasons[0].means if reasons else Word.SAFE, reasons)
