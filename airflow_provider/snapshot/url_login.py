"""A login in an fsspec URL, also in a chained one: found, and kept out of messages."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["has_login", "without_login"]

# Not `urlsplit`: of a chained URL, such as simplecache::ftp://bob:secret@host/x, it sees no part but the first.
_LOGIN: Final = re.compile(r"(?:^|::|://)[^/]*@")
_PRINTED: Final = re.compile(r"(?<=://)[^/\s]*@|^[^/\s]*@|\?\S+")


def has_login(url: str) -> bool:
    """Whether any part of a URL names a user or a password.

    Args:
        url: also a chained one.
    """
    return _LOGIN.search(url) is not None


def without_login(text: str) -> str:
    """A URL, or a message that may have some, with ``…`` for each login and query.

    Args:
        text: for people.
    """
    return _PRINTED.sub("…", text)
