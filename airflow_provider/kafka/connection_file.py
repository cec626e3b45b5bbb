"""How to reach a Kafka cluster, from a file that a person wrote."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.client_config import FIELDS, connection_of, fields_of
from airflow_provider.kafka.connection import KafkaConnection

_BLANKS: Final = " \t"
_SECRETS: Final = frozenset({"sasl_password", "ssl_key_password"})


def connection_from_options(config: Path | None, bootstrap_servers: str | None) -> KafkaConnection:
    """The cluster that a command line names by ``--config`` and ``--bootstrap-servers``; without both, localhost:9092.

    Args:
        config: see `connection_from_file`.
        bootstrap_servers: wins over the file's.

    Raises:
        ConfigurationError: the file cannot be read, or says what is not known.
    """
    if config is not None:
        return connection_from_file(config, bootstrap_servers)
    return KafkaConnection(bootstrap_servers or "localhost:9092")


def connection_from_file(file: Path, bootstrap_servers: str | None = None) -> KafkaConnection:
    """The cluster of a file with a ``name=value`` for each line, in librdkafka's words; ``#`` begins a comment.

    Blanks around names and values are no part of them.

    Args:
        file: not readable for every user of the host where it holds a password; its group may read it.
        bootstrap_servers: wins over the file's.

    Raises:
        ConfigurationError: the file cannot be read, says what is not known, or shows a password to everybody.
    """
    found = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
    try:
        # Not `splitlines`: a password may hold what that takes for the end of a line.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file} cannot be read ({error}): name a text file with a name=value a line."
        ) from error
    for number, line in enumerate(lines, 1):
        name, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not (name or equals) or name.startswith("#"):
            continue
        fields, refused = fields_of({name: value})
        if not equals or refused:
            # The line itself may hold a password.
            raise ConfigurationError(f"Line {number} of {file} sets none of {', '.join(FIELDS)}: correct or remove it.")
        found = fields | found
    if _SECRETS & found.keys() and file.stat().st_mode & stat.S_IROTH:
        raise ConfigurationError(
            f"{file} holds a password, and every user of this host may read it: take that right away (chmod o-r)."
        )
    return connection_of(
        found, str(file), "has no line bootstrap.servers=host:port: add it, or give --bootstrap-servers."
    )
