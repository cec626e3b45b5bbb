"""Why the connections of a Kafka client fail, said in few words instead of librdkafka's many lines."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from typing import Final

from confluent_kafka import KafkaError

from airflow_provider.errors import BrokerUnreachableError, LoginRefusedError
from airflow_provider.kafka.connection import KafkaConnection

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


log = logging.getLogger(__name__)

_AGAIN_S: Final = 60.0
_STATE: Final = re.compile(r" \(after \d+ms in state .*$")
_BROKER: Final = re.compile(r"\w+://\[?(?P<host>[^/\]]+?)\]?:(?P<port>\d+)/")
_CERTIFICATE: Final = "certificate verify failed"
_ALERT: Final = re.compile(r"alert .*(certificate|unknown ca|handshake failure)")


class ConnectionErrors:
    """An ``error_cb`` of a client: keeps the newest reason, and logs each reason once a minute.

    A client calls it while it is polled, from the thread that polls.

    Args:
        logs: whether to log; of a process's many clients one is enough.
    """

    def __init__(self, connection: KafkaConnection, logs: bool = True) -> None:
        self._connection, self._logs = connection, logs
        self._logged: dict[str, float] = {}
        self._last, self._at = "", 0.0
        self._refused = False

    def __call__(self, error: KafkaError) -> None:
        """Take one of the client's errors."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # says less than what came before it
            return
        self._last, self._at = _STATE.sub("", error.str()), time.monotonic()
        self._refused = error.code() == KafkaError._AUTHENTICATION
        reason, now = self._last, self._at
        if self._logs and now - self._logged.get(reason, -_AGAIN_S) >= _AGAIN_S:
            self._logged[reason] = now
            log.warning("no connection to Kafka, tried again without end: %s", self._advice() or reason)

    def because(self, otherwise: str) -> str:
        """The newest reason behind what a request said, for an error's text; the latter alone where there is none."""
        if not self._last or time.monotonic() - self._at > _AGAIN_S:
            return otherwise
        return f"{otherwise}; {self._advice() or self._last}"

    def unreachable(self, what: str, otherwise: str, way_out: str) -> BrokerUnreachableError:
        """The error for a request that was not answered.

        Args:
            what: was not answered.
            otherwise: what the request said, where no connection says more.
            way_out: what to do, where the reason does not say it itself.

        Returns:
            `LoginRefusedError` where a broker refuses who comes.
        """
        if (advice := self._advice()) is None:
            return BrokerUnreachableError(f"{what} ({self.because(otherwise)}): {way_out}")
        return (LoginRefusedError if self._refused else BrokerUnreachableError)(f"{what}. {advice}")

    def _advice(self) -> str | None:
        """The newest reason with what to do about it; None where there is none, or it speaks for itself."""
        of = self._connection
        if time.monotonic() - self._at > _AGAIN_S:  # it may have connected since
            return None
        if self._refused:
            return (
                f"The login of {of.sasl_username!r} by {of.sasl_mechanism} is refused ({self._last}): correct user "
                "name, password and SASL mechanism on the connection, and see that the user may log in."
            )
        if _CERTIFICATE in self._last and (broker := _BROKER.match(self._last)) is not None:
            return certificate_problem(broker["host"], int(broker["port"]), of.ssl_ca_location)
        if _ALERT.search(self._last):
            return (
                f"The broker refuses the certificate of this client, or that it shows none ({self._last}): set "
                "ssl_certificate_location and ssl_key_location to one that is valid now and that an authority signed "
                "which the brokers trust."
            )
        return None
