"""Persons, auctions and bids, as the published Nexmark model has them.

Of 50 events one is a person, three are auctions and 46 are bids. Half of the bids go to a hot auction, which is the
first of the newest hundred; three of four come from a hot bidder, and three of four auctions from a hot seller, who are
the second and the first of the newest hundred persons. The others are spread over the auctions in flight and the active
persons, and over some that do not exist yet. Prices are spread evenly over six powers of ten, from 100 on. Half of the
bids come from four large channels, the others from ten thousand small ones, of whose URLs nine of ten name the channel.

What differs from the published generator: it draws from numpy, so a seed always gives the same events; a time is
delayed by itself, where that shuffles events in groups; and a bidder is one of the persons, where that adds the first
id twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

FIRST_ID: Final = 1_000
CLOSING_ID: Final = 1_000_000_000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
PERSONS_AUCTIONS_BIDS: Final = (1, 3, 46)
EPOCH: Final = sum(PERSONS_AUCTIONS_BIDS)

_HOT_OF: Final = 100
"""Among how many persons or auctions one is hot."""
_LEAD: Final = 10
"""How many that do not exist yet may be named."""
_SMALL_CHANNELS: Final = 10_000
_HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
_STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES: Final = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland",
    "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
_FIRST_NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_CLOSING_URL: Final = "https://www.nexmark.com/a/b/c/item.htm?query=1"
_LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


class Event(NamedTuple):
    """A record: its value's first field is its key; `at_ms` is when it comes."""

    topic: str
    key: str
    value: dict[str, Any]
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Model:
    """How many events there are, and how they are spread; the defaults are the published ones but for the rate.

    Args:
        rate: events a second of event time; with the published 10,000 a window of ten seconds holds 100,000.
        delayed: which share of the events comes late,
        delay_ms: and by how much at the most, so that with a watermark of as much no event is late.
        first_ms: the time of the first event: ten seconds before midnight.
        first: how many events of the same model come before these, so that a stream can be made piece by piece.
    """

    events: int
    seed: int
    rate: int = 200
    delayed: float = 0.1
    delay_ms: int = 3_000
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    auctions_in_flight: int = 100
    active_persons: int = 1_000
    first_ms: int = 1_436_918_390_000
    first: int = 0

    @property
    def longest_auction_ms(self) -> int:
        """Twice the time until as many auctions have begun as are in flight."""
        return max(1, 2 * (self.auctions_in_flight * EPOCH // PERSONS_AUCTIONS_BIDS[1]) * 1_000 // self.rate)

    def stream(self) -> list[Event]:
        """The events in the order in which they come."""
        draw, number = np.random.default_rng(self.seed), self.first + np.arange(self.events, dtype=np.int64)
        time = self.first_ms + number * 1_000 // self.rate
        late = draw.random(self.events) < self.delayed
        at = time + np.where(late, draw.integers(0, self.delay_ms, self.events, endpoint=True), 0)
        persons, auctions, _ = PERSONS_AUCTIONS_BIDS
        place = number % EPOCH
        kinds = (place < persons, (place >= persons) & (place < persons + auctions), place >= persons + auctions)
        makers = {"persons": self._persons, "auctions": self._auctions, "bids": self._bids}
        text, events = _Text(draw), list[tuple[int, int, Event]]()
        for kind, (topic, maker) in zip(kinds, makers.items(), strict=True):
            made = zip(
                at[kind].tolist(), number[kind].tolist(), maker(draw, text, number[kind], time[kind]), strict=True
            )
            events += ((at_ms, place, _event(topic, value, at_ms)) for at_ms, place, value in made)
        return [event for _, _, event in sorted(events, key=itemgetter(0, 1))]

    def closing(self, count: int = 24, later_ms: int = 0) -> list[Event]:
        """Events of the day after, some of each kind: with those of a kind in all partitions everything before is over.

        None of them has a partner in a join, and no filter of a query drops them. All of their ids are `CLOSING_ID` or
        greater.

        Args:
            later_ms: how much later than a day they are.
        """
        at = self.first_ms + (self.first + self.events) * 1_000 // self.rate + 86_400_000 + later_ms
        common = {"dateTime": at, "extra": ""}
        found = []
        for number in range(count):
            id = CLOSING_ID + number
            person = {"id": id, "name": "", "emailAddress": "", "creditCard": "", "city": "", "state": "OR", **common}
            auction = {
                "id": id, "itemName": "", "description": "", "initialBid": 1, "reserve": 1, "expires": at + 1,
                "seller": id + 100_000, "category": FIRST_CATEGORY, **common,
            }  # fmt: skip
            bid = {"auction": id + 200_000, "bidder": id, "price": 1, "channel": "", "url": _CLOSING_URL, **common}
            for topic, value in (("persons", person), ("auctions", auction), ("bids", bid)):
                found.append(_event(topic, value, at))
        return found

    def _persons(self, draw: np.random.Generator, text: _Text, number: Ints, time: Ints) -> Iterator[dict[str, Any]]:
        count, cards = len(number), draw.integers(0, 10_000, (len(number), 4)).tolist()
        names = zip(text.one_of(_FIRST_NAMES, count), text.one_of(_LAST_NAMES, count), strict=True)
        columns = (
            (_newest_person(number) + FIRST_ID).tolist(), names, text.words(count, 7), text.words(count, 5), cards,
            text.one_of(_CITIES, count), text.one_of(_STATES, count), time.tolist(), text.extras(count, 130),
        )  # fmt: skip
        for id, name, user, host, card, city, state, at, extra in zip(*columns, strict=True):
            yield {
                "id": id,
                "name": " ".join(name),
                "emailAddress": f"{user}@{host}.com",
                "creditCard": " ".join(f"{part:04}" for part in card),
                "city": city,
                "state": state,
                "dateTime": at,
                "extra": extra,
            }

    def _auctions(self, draw: np.random.Generator, text: _Text, number: Ints, time: Ints) -> Iterator[dict[str, Any]]:
        count, newest = len(number), _newest_person(number)
        hot = draw.integers(0, self.hot_sellers, count) > 0
        seller = np.where(hot, newest // _HOT_OF * _HOT_OF, self._any_person(draw, newest)) + FIRST_ID
        first, length = _prices(draw, count), 1 + draw.integers(0, self.longest_auction_ms, count)
        columns = (
            (_newest_auction(number) + FIRST_ID).tolist(), text.words(count, 20), text.words(count, 100),
            first.tolist(), (first + _prices(draw, count)).tolist(), time.tolist(), (time + length).tolist(),
            seller.tolist(), (FIRST_CATEGORY + draw.integers(0, CATEGORIES, count)).tolist(), text.extras(count, 390),
        )  # fmt: skip
        names = (
            "id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category",
            "extra",
        )  # fmt: skip
        return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))

    def _bids(self, draw: np.random.Generator, text: _Text, number: Ints, time: Ints) -> Iterator[dict[str, Any]]:
        count, newest, newest_person = len(number), _newest_auction(number), _newest_person(number)
        oldest = np.maximum(newest - self.auctions_in_flight, 0)
        any_auction = oldest + draw.integers(0, newest - oldest + 1 + _LEAD)
        auction = np.where(draw.integers(0, self.hot_auctions, count) > 0, newest // _HOT_OF * _HOT_OF, any_auction)
        hot = draw.integers(0, self.hot_bidders, count) > 0
        bidder = np.where(hot, newest_person // _HOT_OF * _HOT_OF + 1, self._any_person(draw, newest_person))
        channels = text.channels()
        small = len(_HOT_CHANNELS) + draw.integers(0, _SMALL_CHANNELS, count)
        channel = np.where(draw.integers(0, 2, count) > 0, draw.integers(0, len(_HOT_CHANNELS), count), small)
        columns = (
            (auction + FIRST_ID).tolist(), (bidder + FIRST_ID).tolist(), _prices(draw, count).tolist(),
            channel.tolist(), time.tolist(), text.extras(count, 68),
        )  # fmt: skip
        for on, by, price, through, at, extra in zip(*columns, strict=True):
            name, url = channels[through]
            yield {
                "auction": on,
                "bidder": by,
                "price": price,
                "channel": name,
                "url": url,
                "dateTime": at,
                "extra": extra,
            }

    def _any_person(self, draw: np.random.Generator, newest: Ints) -> Ints:
        """An active one, or one of the next to come."""
        active = np.minimum(newest + 1, self.active_persons)
        return newest + 1 - active + draw.integers(0, active + _LEAD)


def side_input(keys: Iterable[int]) -> list[Event]:
    """The rows that q13 joins with, of some keys."""
    return [_event("side_input", {"key": key, "value": f"v{key}"}, 0) for key in keys]


def _event(topic: str, value: dict[str, Any], at_ms: int) -> Event:
    return Event(topic, str(next(iter(value.values()))), value, at_ms)


def _newest_person(number: Ints) -> Ints:
    """Counted from 0, as of an event."""
    return number // EPOCH


def _newest_auction(number: Ints) -> Ints:
    persons, auctions, _ = PERSONS_AUCTIONS_BIDS
    return number // EPOCH * auctions + np.clip(number % EPOCH - persons, -1, auctions - 1)


def _prices(draw: np.random.Generator, count: int) -> Ints:
    return np.rint(10.0 ** (draw.random(count) * 6) * 100).astype(np.int64)


class _Text:
    """Random words, cut out of one long text."""

    def __init__(self, draw: np.random.Generator) -> None:
        self._draw = draw
        self._letters = draw.integers(ord("a"), ord("z"), 1 << 16, np.uint8, endpoint=True).tobytes().decode()

    def words(self, count: int, below: int) -> list[str]:
        """Of at least three letters, and fewer than so many."""
        return self._cut(self._draw.integers(3, below, count))

    def extras(self, count: int, mean: int) -> list[str]:
        """What fills a record: a fifth more or less than the mean."""
        return self._cut(self._draw.integers(mean * 4 // 5, mean * 6 // 5, count))

    def one_of(self, choices: tuple[str, ...], count: int) -> list[str]:
        return [choices[at] for at in self._draw.integers(0, len(choices), count)]

    def channels(self) -> list[tuple[str, str]]:
        """Names and URLs: the large ones, whose URLs do not say who they are, and the small ones."""
        named = self._draw.random(_SMALL_CHANNELS) < 0.9
        count = len(_HOT_CHANNELS) + _SMALL_CHANNELS
        parts = zip(self.words(count, 5), self.words(count, 5), self.words(count, 5), strict=True)
        urls = [f"https://www.nexmark.com/{'/'.join(part)}/item.htm?query=1" for part in parts]
        large, small = urls[: len(_HOT_CHANNELS)], urls[len(_HOT_CHANNELS) :]
        return list(zip(_HOT_CHANNELS, large, strict=True)) + [
            (f"channel-{number}", f"{url}&channel_id={number}" if says else url)
            for number, (url, says) in enumerate(zip(small, named, strict=True))
        ]

    def _cut(self, lengths: Ints) -> list[str]:
        starts = self._draw.integers(0, len(self._letters) - int(lengths.max(initial=0)), len(lengths)).tolist()
        return [self._letters[start : start + length] for start, length in zip(starts, lengths.tolist(), strict=True)]
