"""A login in an fsspec URL, also in a chained one: found, and kept out of messages."""

from __future__ import annotations

import re
from typing import Final

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

    Args:
        url: also a chained one.
    """
    return _LOGIN.search(_PROTOCOL.sub("\n", _CONTAINER.sub(r"\1", url))) is not None


def without_login(text: str) -> str:
    """A URL, or a message that may have some, with ``…`` for each login, query and parameter.

    Args:
        text: for people.
    """
    return _PRINTED.sub("…", text)
