"""What is wrong with a broker's certificate: librdkafka has one text for all that may be."""

from __future__ import annotations

import socket
import ssl
from typing import Final

_TIMEOUT_S: Final = 2.0
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_OTHER_NAME: Final = frozenset({62, 64})
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 27})


def certificate_problem(host: str, port: int, ca_location: str | None) -> str | None:
    """Why the certificate that is shown at an address is refused, and what to do, found out by another handshake.

    Args:
        host: as the client connects to it.
        ca_location: PEM file of the authorities that the client trusts; None for the system's.

    Returns:
        None where the certificate is fine now, or nobody answers.
    """
    try:
        trusting = ssl.create_default_context(cafile=ca_location)
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            trusting.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        # The numbers are OpenSSL's (X509_V_ERR_...).
        return _advice(f"The certificate of {host}:{port}", error.verify_code, error.verify_message, ca_location)
    except (OSError, ValueError):
        return None


def _advice(whose: str, code: int, message: str, ca_location: str | None) -> str:
    if code == _EXPIRED:
        return f"{whose}, or one of those that signed it, has expired: renew it on the broker, and have it read it."
    if code == _NOT_YET_VALID:
        return f"{whose} is not valid yet: compare the clock of this host with the broker's, and then its dates."
    if code in _OTHER_NAME:
        return (
            f"{whose} is for another name: name the broker as its certificate does, in bootstrap_servers and in the "
            f"broker's advertised.listeners, or have one made for this name ({message})."
        )
    if code in _UNKNOWN_AUTHORITY:
        trusted = f"those of {ca_location}" if ca_location else "the system's"
        return (
            f"{whose} is signed by an authority that is not among {trusted}: set ssl_ca_location to a PEM file with "
            f"that authority ({message})."
        )
    return f"{whose} is refused ({message}): correct it on the broker."
