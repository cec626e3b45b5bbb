"""Where snapshots go, how often, and what is assumed of the way there."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError

# Not `urlsplit`: of a chained URL, such as simplecache::ftp://bob:secret@host/x, it sees no part but the first, and of
# a password with a "/" it takes the rest for a path.
_CONTAINER: Final = re.compile(r"((?:^|::)abfss?://)[^/:@]+@", re.IGNORECASE)
"""What stands before the "@" of abfs://container@account is no user."""
_NAME: Final = "[A-Z][A-Z0-9+.-]*"
_PROTOCOL: Final = re.compile(rf"(?:^|::){_NAME}(?:://|(?=::))", re.IGNORECASE)
_LOGIN: Final = re.compile(r"(?:^|\n)[^/\n]*@|:.*@|;[^/;]*=", re.DOTALL)
_COLON: Final = rf":(?!//|:{_NAME}:|(?<=::){_NAME}:)"
"""One that belongs to no protocol."""
_PRINTED: Final = re.compile(
    rf"(?<=://)\S*{_COLON}\S*@|^(?!{_NAME}(?:://|::))\S*{_COLON}\S*@"
    r"|(?<=://)(?<!abfs://)(?<!abfss://)[^/\s]*@|^[^/\s]*@|\?\S+|;[^\s;/]*=\S*",
    re.IGNORECASE,
)


def has_login(url: str) -> bool:
    """Whether any part of a URL names a user or a password.

    Where a ":" stands before an "@", all between them may be a password, with whatever "/" it has. A parameter behind a
    ";", such as ``;token=``, counts as one too.
    """
    return _LOGIN.search(_PROTOCOL.sub("\n", _CONTAINER.sub(r"\1", url))) is not None


def without_login(text: str) -> str:
    """A URL, or a message that may have some, with ``…`` for each login, query and parameter."""
    return _PRINTED.sub("…", text)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CHAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*")


@dataclass(frozen=True)
class SnapshotSettings:
    """Snapshots of one job.

    Credentials are not among them: fsspec takes those from the host's environment or its files, such as
    ``~/.aws/credentials``, ``FSSPEC_S3_KEY`` or ``~/.config/fsspec``.

    Args:
        url: a folder that fsspec can open, such as ``s3://bucket/prefix`` or ``file:///mnt/shared``; no part of it may
            carry a login. ``abfs://container@account`` is none.
        interval_s: between two snapshots of one standby.
        timeout_s: deadline of one request; a transfer gets its size at `slowest_bytes_per_s` on top.
        slowest_bytes_per_s: a transfer that is slower counts as hanging.
        download_bytes_per_s: what a restore is assumed to download.
        replay_records_per_s: what a restore is assumed to read from a changelog.
    """

    url: str
    _: KW_ONLY
    interval_s: float = 3600.0
    keep: int = 3
    timeout_s: float = 30.0
    slowest_bytes_per_s: int = 2 << 20
    download_bytes_per_s: int = 200 << 20
    replay_records_per_s: int = 600_000

    def __post_init__(self) -> None:
        """Refuse what cannot work, and a URL that carries a secret.

        Raises:
            ConfigurationError: says which setting.
        """
        if has_login(self.url) or "?" in self.url:
            protocol, _, rest = self.url.partition("://")
            begins = f"{protocol}://…" if rest and _CHAIN.fullmatch(protocol) else "…"
            raise ConfigurationError(
                f"The snapshots' URL ({begins}) carries a login, a query or a parameter, which would end in "
                "logs: leave it out, and give fsspec the credentials by the host's environment or credentials files. "
                "What stands between a ':' and an '@' counts as a password, also where it has a '/'."
            )
        if _SCHEME.match(self.url) is None:
            raise ConfigurationError(
                f"The snapshots' URL is {self.url!r}: it needs a scheme that fsspec knows, such as s3:// or file:///."
            )
        if self.interval_s <= 0 or self.keep < 1 or self.timeout_s <= 0:
            raise ConfigurationError(
                f"Snapshots got interval_s={self.interval_s:g}, keep={self.keep}, timeout_s={self.timeout_s:g}: all "
                "must be above 0."
            )

    def transfer_timeout_s(self, size: int) -> float:
        """The deadline for a file of that many bytes."""
        return self.timeout_s + size / self.slowest_bytes_per_s
