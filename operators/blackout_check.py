"""Skips a drill in times in which none is to begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.common.clock import now_ms
from airflow_provider.control.drill_fault import DrillKind, parse_drill_kind
from airflow_provider.control.drills.blackout import blackout_at, parse_blackouts
from airflow_provider.control.history.builder import skipped_drill_record
from airflow_provider.operators.arguments import parse_optional, parse_texts
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.skipped_drill import skipped_drill_id

__all__ = ["CheckBlackoutOperator"]


class CheckBlackoutOperator(ControlOperator):
    """Skips itself, and so what lies behind it, where no drill is to begin now. A drill that has begun goes on.

    The history gets a record of it, once a run: a drill that was skipped, with the reason.

    Args:
        application_id: the application.
        blackout: the times in which none begins, such as ``["mon-fri 08:00-18:00 Europe/Vienna", "sat,sun"]`` (see
            `control.drills.blackout.Blackout.parse`); as text with semicolons between them, too. None for none.
        kind: of the drill, for that record.
        kwargs: see `ControlOperator`.

    Raises:
        ConfigurationError: a time cannot be read, or there is no such kind.
        AirflowSkipException: it is one of them now; says which.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "blackout", "kind")

    def __init__(
        self,
        *,
        application_id: str,
        blackout: Sequence[str] | str | None = None,
        kind: str = DrillKind.CRASH.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.blackout = blackout
        self.kind = kind

    def execute(self, context: Context) -> None:
        """Look at the clock."""
        given = parse_optional(self.blackout)
        blackouts = () if given is None else parse_blackouts(parse_texts("blackout", given))
        if (why := blackout_at(blackouts, datetime.fromtimestamp(now_ms() / 1000, UTC))) is not None:
            self._note(context, why)
            raise AirflowSkipException(f"{self.application_id}: {why}.")

    def _note(self, context: Context, why: str) -> None:
        record = skipped_drill_record(
            self.application_id,
            skipped_drill_id(context),
            str(context["run_id"]),
            parse_drill_kind(self.kind),
            reason=why,
            at_ms=now_ms(),
        )
        self.note_history([record])
