"""Capital and small letters as Spark makes them, whatever Unicode this Python has.

Spark 4 asks ICU 78, which has Unicode 17; Python 3.11 has 14. Nothing but the letters and marks that came since is made
otherwise, and what a capital sigma becomes, which depends on the letters around it (Unicode, ``SpecialCasing.txt``,
Final_Sigma). Where the JVM's language has letters of its own, as Turkish has, it is another matter (`SqlSession`).
"""

from __future__ import annotations

from typing import Final


def _those(ranges: str) -> list[int]:
    found = list[int]()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found += range(int(first, 16), int(last or first, 16) + 1)
    return found


_SMALL: Final = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7DC: 0x19B},
    **{at: at + 1 for at in (0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{at: at + 0x20 for at in range(0x10D50, 0x10D66)},
    **{at: at + 0x1B for at in range(0x16EA0, 0x16EB9)},
}
"""Of capital letters that came since."""
_CAPITAL: Final = {small: capital for capital, small in _SMALL.items()}
_LETTERS: Final = "1c89-1c8a a7cb-a7cf a7d2 a7d4 a7da-a7dc 10d50-10d65 10d70-10d85 16ea0-16eb8 16ebb-16ed3 1df25-1df2a"
_MARKS: Final = (
    "897 ece 1acf-1add 1ae0-1aeb a7f1 10d4e 10d69-10d6d 10d6f 10ec5 10efa-10eff 11241 113bb-113c0 113ce 113d0 113d2 "
    "113e1-113e2 11b60 11b62-11b64 11b66 11dd9 11f00-11f01 11f36-11f3a 11f40 11f42 11f5a 13439-13440 13447-13455 "
    "1611e-16129 1612d-1612f 16d40-16d42 16d6b-16d6c 16ff2-16ff3 1e030-1e06d 1e08f 1e4eb-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 "
    "1e6ee-1e6ef 1e6f5 1e6ff"
)
_ALIKE: Final = {
    **dict.fromkeys(_those(_LETTERS), "x"),
    **dict.fromkeys(_those(_MARKS), "\u0301"),
    **{0x295: " ", 0x1171E: " "},
}
"""What counts beside a sigma as they do: a letter, a mark that is passed over, and what is neither any more."""


def lower(text: str) -> str:
    """Small letters."""
    alike = text.translate(_ALIKE)
    if alike == text:
        return text.lower()
    sigmas = iter([one for one in alike.lower() if one in "σς"])
    return "".join(next(sigmas) if one in "Σσς" else one.lower() for one in text).translate(_SMALL)


def upper(text: str) -> str:
    """Capital letters."""
    return text.upper().translate(_CAPITAL)
