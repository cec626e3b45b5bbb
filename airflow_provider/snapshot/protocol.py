"""Whether this host can open a snapshots' URL."""

from __future__ import annotations

from typing import Final

import fsspec

from airflow_provider.errors import ConfigurationError
from airflow_provider.snapshot.url_login import has_login, without_login

__all__ = ["check_protocol"]

_USUAL: Final = "file, s3, gs, abfs, hdfs, sftp"


def check_protocol(url: str) -> None:
    """Refuse a URL for which there is no file system here; nothing is opened.

    Args:
        url: of the snapshots, also a chained one, such as ``simplecache::s3://bucket/prefix``.

    Raises:
        ConfigurationError: fsspec does not know a protocol of it, or what that needs is not installed.
    """
    shown, hidden = without_login(url), has_login(url)
    for part in url.split("::"):
        protocol = part.partition("://")[0]
        # Of a password with a "::" in it, a part would look like a protocol.
        named = "…" if hidden else without_login(protocol)
        try:
            fsspec.get_filesystem_class(protocol)
        except ValueError:
            raise ConfigurationError(
                f"snapshots() got url={shown!r}, whose protocol {named!r} fsspec does not know: use one that it does, "
                f"such as {_USUAL}. For one of your own, install its package in the Python environment of every "
                "instance."
            ) from None  # its text repeats the protocol
        except ImportError as error:
            because = f" ({error.__cause__})" if error.__cause__ is not None else ""
            raise ConfigurationError(
                f"snapshots() got url={shown!r}, whose protocol {named!r} needs a package that cannot be imported "
                f"here: {str(error).rstrip('.')}{because}. Install it in the Python environment of every instance."
            ) from error
