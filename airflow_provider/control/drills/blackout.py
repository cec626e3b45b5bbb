"""Times of the week in which no drill begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Final
from zoneinfo import ZoneInfo

from airflow_provider.errors import ConfigurationError

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_LIST: Final = re.compile(rf"(?:{'|'.join(_DAYS)})(?:[-,](?:{'|'.join(_DAYS)}))*")
_HOURS: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_MIDNIGHT: Final = time(0)


@dataclass(frozen=True, kw_only=True)
class Blackout:
    """A time of the week, by the clocks of a place.

    Args:
        days: the weekdays on which it begins, Monday is 0.
        end: when it ends: on the same day where that is later than ``start``, else on the next.
        zone: the place's name in the time zone database, such as ``Europe/Vienna``.
    """

    days: frozenset[int]
    start: time
    end: time
    zone: str

    @classmethod
    def parse(cls, text: str) -> Blackout:
        """``[days] [hours] [zone]``, of which days or hours have to be there.

        Days are ``mon-fri``, ``sat,sun`` or both (every day where there are none), hours ``08:00-18:00`` (the whole day
        where there are none; ``22:00-06:00`` ends on the next day), the zone ``Europe/Vienna`` (UTC where there is
        none).

        Raises:
            ConfigurationError: it is written otherwise, or there is no such zone.
        """
        words = text.split()
        listed = _DAY_LIST.fullmatch(words[0].lower()) if words else None
        days = _days(words.pop(0).lower()) if listed else None
        hours = _HOURS.fullmatch(words[0]) if words else None
        zone = words[1:] if hours else words
        if len(zone) > 1 or (days is None and hours is None):
            raise _unreadable(text)
        try:
            start, end = map(time.fromisoformat, hours.groups()) if hours else (_MIDNIGHT, _MIDNIGHT)
            ZoneInfo(*zone or ["UTC"])
        except (ValueError, OSError, KeyError) as error:  # the last for a zone that is not in the database
            raise _unreadable(text) from error
        every_day = frozenset(range(len(_DAYS)))
        return cls(days=every_day if days is None else days, start=start, end=end, zone=zone[0] if zone else "UTC")

    def __str__(self) -> str:
        """As `parse` reads it."""
        whole_day = self.start == self.end == _MIDNIGHT
        days = [",".join(_DAYS[day] for day in sorted(self.days))] if whole_day or len(self.days) < len(_DAYS) else []
        hours = [] if whole_day else [f"{self.start:%H:%M}-{self.end:%H:%M}"]
        return " ".join([*days, *hours, self.zone])

    def covers(self, at: datetime) -> bool:
        """Whether a moment lies in it."""
        local = at.astimezone(ZoneInfo(self.zone))
        today, yesterday = local.weekday() in self.days, (local.weekday() - 1) % 7 in self.days
        if self.start < self.end:
            return today and self.start <= local.time() < self.end
        return (today and local.time() >= self.start) or (yesterday and local.time() < self.end)


def parse_blackouts(texts: str | Iterable[str]) -> tuple[Blackout, ...]:
    """One or several.

    Args:
        texts: of `Blackout.parse`; one text may hold several, with semicolons between them.

    Raises:
        ConfigurationError: one cannot be read.
    """
    if isinstance(texts, str):
        texts = texts.split(";")
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise _unreadable(text)
        if text.strip():
            found.append(Blackout.parse(text))
    return tuple(found)


def blackout_at(blackouts: Sequence[Blackout], at: datetime) -> str | None:
    """Why no drill begins now, in one line; None where one may."""
    for blackout in blackouts:
        if blackout.covers(at):
            local = at.astimezone(ZoneInfo(blackout.zone))
            return f"no drill begins {local:%a %H:%M} {blackout.zone}, within the blackout {blackout}"
    return None


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        names = part.split("-")
        first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
        found.update(day % 7 for day in range(first, last + 1 if first <= last else last + 8))
    return frozenset(found)


def _unreadable(text: object) -> ConfigurationError:
    return ConfigurationError(
        f"Found the blackout {text!r}, expected days, hours and a time zone, such as 'mon-fri 08:00-18:00 "
        "Europe/Vienna', 'sat,sun' or '22:00-06:00': correct it."
    )
