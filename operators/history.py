"""Shows what an application went through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_optional, parse_whole
from airflow_provider.control.history.report import history_table
from airflow_provider.control.records.history import HistoryKind, history_plain
from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.control import ControlOperator


class HistoryOperator(ControlOperator):
    """Logs the history of an application as a table, and returns it: drills, failovers, restores, upgrades.

    Args:
        since: only what began then or later, in ISO 8601; UTC where it names no zone. None for all.
        kind: only ``"drill"``, ``"failover"``, ``"restore"`` or ``"upgrade"``; None for all.
        limit: how many at most, the newest.
        kwargs: see `ControlOperator`.

    Returns:
        A list of records as plain values, the oldest first; their fields are in ``docs/formats.md``.

    Raises:
        ConfigurationError: an argument is not what it has to be.
        TopicMissingError: the application has no history.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "since", "kind", "limit")

    def __init__(
        self,
        *,
        application_id: str,
        since: str | None = None,
        kind: str | None = None,
        limit: int | str = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.since = since
        self.kind = kind
        self.limit = limit

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read and show."""
        since, kind = parse_optional(self.since), parse_optional(self.kind)
        found = self.hook.read_history(
            self.application_id,
            since=None if since is None else _epoch_ms(since),
            kind=None if kind is None else _kind(kind),
        )
        shown = found[-parse_whole("limit", self.limit, minimum=1) :]
        self.log.info("%d of %d record(s) of %s\n%s", len(shown), len(found), self.application_id, history_table(shown))
        return [history_plain(record) for record in shown]


def _epoch_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"since is {text!r}: use a time in ISO 8601, such as '2026-01-31T04:00:00+00:00'."
        ) from error
    return round(1000 * (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp())


def _kind(name: str) -> HistoryKind:
    try:
        return HistoryKind(name)
    except ValueError as error:
        kinds = ", ".join(repr(kind.value) for kind in HistoryKind)
        raise ConfigurationError(f"kind is {name!r}: use {kinds}.") from error
