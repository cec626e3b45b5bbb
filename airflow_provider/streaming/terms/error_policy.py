"""What becomes of a record that cannot be processed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_topic


class OnError(Enum):
    """What a job does with a record that does not decode, has no usable key, or makes its function raise."""

    FAIL = "fail"
    """Stop the task with an error that names the record; the state stays as of the last commit."""
    SKIP = "skip"
    """Leave it out and count it."""
    DEAD_LETTER = "dead_letter"
    """Leave it out, count it, and write it to another topic in the same transaction."""


@dataclass(frozen=True)
class ErrorPolicy:
    """A job's policy.

    Args:
        topic: the dead-letter topic; needed with `OnError.DEAD_LETTER`, and only there.

    Raises:
        ConfigurationError: a topic is missing, is no topic's name, or is named where none is written.
    """

    on_error: OnError = OnError.FAIL
    topic: str | None = None

    def __post_init__(self) -> None:
        """Refuse half a policy."""
        if (self.on_error is OnError.DEAD_LETTER) != bool(self.topic):
            raise ConfigurationError(
                f"on_error({self.on_error.value!r}) got the topic {self.topic!r}: name a topic with 'dead_letter', and "
                "none with the others."
            )
        if self.topic is not None:
            check_topic("on_error()", self.topic)

    @property
    def tolerant(self) -> bool:
        """Whether the task goes on without such a record."""
        return self.on_error is not OnError.FAIL
