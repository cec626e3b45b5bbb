"""The text by which Java's Kafka clients and brokers are told how to log in: a login module and its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PACKAGE: Final = "org.apache.kafka.common.security"

LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""By SASL mechanism, the class that logs in by it."""


def jaas_config(mechanism: str, options: Mapping[str, str]) -> str:
    """One login, as the value of ``sasl.jaas.config``.

    Args:
        mechanism: one of `LOGIN_MODULES`.
        options: of the module; any text as value.
    """
    words = [f"{name}={_quoted(value)}" for name, value in options.items()]
    return f"{' '.join([LOGIN_MODULES[mechanism], 'required', *words])};"


def _quoted(value: str) -> str:
    # Java reads it with a StreamTokenizer, to which the end of a line is the end of a string.
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
