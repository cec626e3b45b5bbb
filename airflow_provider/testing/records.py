"""What a test pipes in and reads: records for the source topic, records of the sink topic, and how many were taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from airflow_provider.errors import ConfigurationError


@dataclass(frozen=True)
class InputRecord:
    """A record to pipe in, where a value alone does not say enough.

    Args:
        value: bytes and texts as they are, None for a null value, anything else as JSON.
        key: None for the value's `group_by` column where it has one, else for no key.
        partition: of the source topic; None for the one that Kafka's Java clients choose for the key.
        timestamp_ms: epoch ms; None for now.
        topic: that it is piped into; None for the only source of the job.
    """

    value: Any
    _: KW_ONLY
    key: str | bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None

    def key_for(self, column: str) -> bytes | None:
        """Its key as bytes."""
        if self.key is not None:
            return key_bytes(self.key)
        found = self.value.get(column) if isinstance(self.value, dict) else None
        return value_bytes(found)


def key_bytes(key: str | bytes) -> bytes:
    """A key as it is in Kafka and in the store.

    Raises:
        ConfigurationError: it is neither text nor bytes.
    """
    given: object = key
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes):
        return given
    raise ConfigurationError(
        f"The key {given!r} is of type {type(given).__name__}, and keys are text, in Kafka and in the store: give its "
        f"text, such as {str(given)!r}."
    )


def value_bytes(value: Any) -> bytes | None:
    """A value as it is in Kafka: bytes and texts as they are, anything else as JSON.

    A float that is not finite is a bare word, such as ``NaN``, as producers write it with Python's ``json.dumps``.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    encoded = msgspec.json.encode(value)
    # The encoder writes a float that is not finite as null.
    return msgspec.json.encode(_with_bare_words(value)) if b"null" in encoded else encoded


def _with_bare_words(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return msgspec.Raw(b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity")
    if isinstance(value, dict):
        return {name: _with_bare_words(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_bare_words(item) for item in value]
    return value


@dataclass(frozen=True)
class OutputRecord:
    """A record of the sink topic.

    Args:
        key: as text.
        value: decoded from JSON.
    """

    key: str
    value: Any


@dataclass(frozen=True)
class Counts:
    """What became of the input so far, as the commit records count it.

    Args:
        processed: input records that were taken, those below included.
        filtered: by filter, how many it dropped; under ``duplicates``, how many ``drop_duplicates()`` did.
        failed: how many were left out because they cannot be processed.
        late: how many came too late for what they belong to.
    """

    processed: int
    filtered: Mapping[str, int]
    failed: int
    late: int = 0
