"""An authority of a test's own, and the certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """Paths of PEM files: the certificate, its private key, and both in one."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs for a folder's files; its own certificate is `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        folder.mkdir(parents=True, exist_ok=True)
        self._certificate = self._sign(name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8, days: float = 2
    ) -> Certificate:
        """A certificate of CN `name`, good for 127.0.0.1, whose key is kept in `form`, encrypted with `password`."""
        key = ec.generate_private_key(ec.SECP256R1())
        none = x509.BasicConstraints(ca=False, path_length=None)
        certificate = self._sign(name, key, none, days).public_bytes(Encoding.PEM)
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        private = key.private_bytes(Encoding.PEM, form, encryption)
        made = Certificate(*(self._folder / f"{name}-{part}.pem" for part in ("certificate", "key", "both")))
        made.certificate.write_bytes(certificate)
        for file, content in ((made.key, private), (made.both, private + certificate)):
            file.touch(0o600)
            file.write_bytes(content)
        return made

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, constraints: x509.BasicConstraints, days: float = 2
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )
