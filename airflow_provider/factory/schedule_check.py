"""Whether a schedule is one that Airflow can read, found out where it is given."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider.errors import ConfigurationError

__all__ = ["check_schedule"]

_PRESETS: Final = frozenset(
    {"@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"}
)


def check_schedule(what: str, schedule: Any) -> None:
    """Refuse a text that is no schedule: Airflow would refuse the whole file for it, without saying whose it is.

    Args:
        what: has it, to begin the message with.
        schedule: as of every DAG; only a text is looked at.

    Raises:
        ConfigurationError: it is neither a preset nor a cron expression.
    """
    if not isinstance(schedule, str) or schedule in _PRESETS:
        return
    # Airflow's own, which it loads when a DAG has such a schedule.
    from croniter import croniter  # type: ignore[import-untyped]

    if not croniter.is_valid(schedule):
        raise ConfigurationError(
            f"{what} {schedule!r}, which is no schedule: give a cron expression of five fields, such as '0 4 * * 1' "
            f"(Mondays at 4:00 UTC), one of {', '.join(sorted(_PRESETS))}, or None to start it by hand."
        )
