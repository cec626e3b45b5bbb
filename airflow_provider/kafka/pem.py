"""A client's certificate and private key, for Java's Kafka client."""

from __future__ import annotations

from pathlib import Path

from airflow_provider.errors import ConfigurationError


def read_certificates(file: str) -> str:
    """The text of a PEM file with a client's certificate, and those between it and an authority.

    Raises:
        ConfigurationError: it cannot be read.
    """
    return _read(file, "the client's certificate").decode("ascii", "replace")


def read_private_key(file: str, password: str | None) -> str:
    """The key of a PEM file as Java takes it: PKCS 8, not encrypted. It is secret.

    Librdkafka takes keys that Java does not: of other forms (``BEGIN RSA PRIVATE KEY``), and encrypted as openssl does
    it today.

    Args:
        password: of the key; None where it has none.

    Raises:
        ConfigurationError: it cannot be read, or not with this password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    content = _read(file, "the client's private key")
    try:
        key = load_pem_private_key(content, password.encode() if password else None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        # The error of such a library may quote what it read.
        raise ConfigurationError(
            f"{file} holds no private key that can be read {'with' if password else 'without'} a password "
            f"({type(error).__name__}): name a PEM file with the client's key, and its password as ssl_key_password if "
            "it is encrypted."
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def check_readable(file: str, what: str) -> None:
    """Refuse a file that a client could not read: its own error names none.

    Args:
        what: it holds, for the error.

    Raises:
        ConfigurationError: it cannot be read.
    """
    _read(file, what)


def _read(file: str, what: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{file}, which holds {what}, cannot be read here ({error.strerror}): put it there on every host that "
            "connects to Kafka, readable for the user that runs there."
        ) from error
