"""Lines of words, most of them few words: as often as in a language (Zipf)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from tests.benchmarks.case import Case, Record, Side, slices

__all__ = ["Words"]

_LINE: Final = (10, 20)
"""Words of a line, at least and at most."""
_LETTERS: Final = np.array(list("abcdefghijklmnopqrstuvwxyz"))


class Words:
    """The lines, and how often each word is in them.

    Args:
        words: how many in all, about.
        vocabulary: different ones, at the most.
        skew: exponent of Zipf's law; 1 is about that of a language.
    """

    def __init__(self, words: int, vocabulary: int, skew: float) -> None:
        random = np.random.default_rng(1)
        self._lengths = random.integers(_LINE[0], _LINE[1] + 1, words // (sum(_LINE) // 2))
        self._ends = np.cumsum(self._lengths)
        shares = 1.0 / np.arange(1, vocabulary + 1) ** skew
        self._drawn = random.choice(vocabulary, int(self._ends[-1]), p=shares / shares.sum()).astype(np.int32)
        letters = _LETTERS[random.integers(0, len(_LETTERS), (vocabulary, 2))]
        # No two are the same: the number is in the letters behind.
        self._vocabulary = ["".join(drawn) + _in_letters(number) for number, drawn in enumerate(letters.tolist())]

    def case(self) -> Case:
        """What is done with them."""
        return Case(
            job=Path(__file__).with_name("words_job.py"),
            program="Words",
            source="lines",
            sink="counts",
            internal=dict.fromkeys((Side.OURS, Side.KAFKA_STREAMS), "words-repartition"),
            batches=self._batches,
            records=len(self._lengths),
            units=lambda lines: int(self._ends[lines - 1]) if lines else 0,
            judge=self._judge,
        )

    def _batches(self, begin: int, end: int) -> Iterator[Sequence[Record]]:
        for part in slices(begin, end):
            first = int(self._ends[part.start - 1]) if part.start else 0
            words = [self._vocabulary[number] for number in self._drawn[first : self._ends[part.stop - 1]].tolist()]
            batch, at = list[Record](), 0
            for length in self._lengths[part].tolist():
                batch.append({"value": " ".join(words[at : at + length])})
                at += length
            yield batch

    @cached_property
    def _counts(self) -> Counter[str]:
        numbers = np.bincount(self._drawn, minlength=len(self._vocabulary))
        return Counter({word: n for word, n in zip(self._vocabulary, numbers.tolist(), strict=True) if n})

    def _judge(self, side: Side, records: Iterable[tuple[bytes, bytes]]) -> None:
        newest = dict(records)
        if side is not Side.KAFKA_STREAMS:
            found = {key.decode(): json.loads(value)["count"] for key, value in newest.items()}
        else:
            found = {key.decode(): int.from_bytes(value, "big") for key, value in newest.items()}
        if found != self._counts:
            wrong = sum(found.get(word) != number for word, number in self._counts.items())
            raise AssertionError(f"{wrong:,} of {len(self._counts):,} words are counted wrongly")


def _in_letters(number: int) -> str:
    """A number with 26 digits."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_LETTERS))
        digits += str(_LETTERS[digit])
    return digits
