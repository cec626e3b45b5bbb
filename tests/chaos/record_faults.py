"""Faults that lie in a record."""

from __future__ import annotations

import random

from tests.chaos.cluster import Cluster
from tests.chaos.fault import Fault
from tests.chaos.ledger_job import ERROR_CHARS

_TOO_MANY_CHARS = 1_200_000
"""More than a topic takes by default."""
_MANY_CHARS = 1_000_000
"""Nearly all that it takes."""


class LargeRecord(Fault):
    """Records whose output or state is too large for its topic, or that nearly are so themselves, good ones or not."""

    name = "large-record"
    weight = 4.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        kinds = {
            "output": _TOO_MANY_CHARS, "state": _TOO_MANY_CHARS, "malformed": _MANY_CHARS, "long": _MANY_CHARS
        }  # fmt: skip
        kind, number = chance.choice(list(kinds)), chance.randrange(1, 6)
        for _ in range(number):
            cluster.load.ask(kind, kinds[kind])
        return f"{number} of kind {kind}"


class ErrorText(Fault):
    """Records for which the job's function raises an error with a text of megabytes."""

    name = "error-text"
    weight = 3.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        number = chance.randrange(1, 6)
        for _ in range(number):
            cluster.load.ask("error", ERROR_CHARS)
        return f"{number} records"
