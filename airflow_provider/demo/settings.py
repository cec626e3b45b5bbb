"""The settings of one demo."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_provider.demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class DemoSettings:
    """What a demo does.

    Args:
        folder: where everything of it lies.
        keep: whether all stays up after it.
        kill_at: the drill that kills an instance begins when this part of the flights is published; above 0, below 1.
        victim: the instance to kill.
        publish_s: how long the flights take.
        flights: only so many of them; None for all.
        limit_s: how long it may take in all, in seconds.
        spark_master: of both instances.
        spark_conf: of both instances. Two Java machines share two cores with a broker and an Airflow, for two minutes:
            so one compiler that is quick to be ready, one thread to collect garbage, and no pages.
    """

    folder: Path = Path(".demo")
    keep: bool = False
    kill_at: float = 1 / 3
    victim: str = "i1"
    publish_s: float = 110.0
    flights: int | None = None
    limit_s: float = 600.0
    spark_master: str = "local[1]"
    spark_conf: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType(
            {
                "spark.ui.enabled": "false",
                "spark.log.level": "WARN",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "512m",
                "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            }
        )
    )

    def __post_init__(self) -> None:
        """Refuse values that no demo could be run with.

        Raises:
            DemoError: a value is outside of its range.
        """
        if not 0 < self.kill_at < 1:
            raise DemoError(
                f"Found --kill-at {self.kill_at:g}, expected a part of the flights above 0 and below 1: 0.4 kills when "
                "40 % of them are published."
            )
        if self.publish_s <= 0:
            raise DemoError(f"Found --seconds {self.publish_s:g}, expected more than 0.")
        if self.flights is not None and self.flights < 1:
            raise DemoError(f"Found --flights {self.flights}, expected 1 or more.")

    @staticmethod
    def random_kill(seed: int) -> tuple[float, str]:
        """Return a moment between 20 % and 70 % of the flights and an instance, the same for the same seed."""
        chance = random.Random(seed)
        return chance.uniform(0.2, 0.7), chance.choice(["i1", "i2"])
