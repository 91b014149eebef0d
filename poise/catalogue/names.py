"""Names with aliases, found whatever their case and punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

POINT = "·"
"""The replacement of the point in a size, which must not be dropped: OPT-1.3B is not OPT-13B."""

_SIZE = re.compile(r"(?<=\d)\.(\d+) ?(?=[bm](?![a-z]))")


def key(name: str) -> str:
    """`name` in lower case with letters, digits and the points of sizes only: the form in which names are compared."""
    pointed = _SIZE.sub(rf"{POINT}\1", name.lower())
    return "".join(character for character in pointed if character.isalnum() or character == POINT)


class Names:
    """Canonical names and their aliases; `prefixes` and `suffixes` (compared forms) may be missing from a name.

    Two names that share a compared form raise ValueError, for then one of them could never be found.
    """

    def __init__(
        self, aliases: Mapping[str, Iterable[str]], prefixes: tuple[str, ...] = (), suffixes: tuple[str, ...] = ()
    ) -> None:
        self._prefixes = prefixes
        self._suffixes = suffixes
        self._known: dict[str, str] = {}
        for name, others in aliases.items():
            for spelling in (name, *others):
                if self._known.setdefault(key(spelling), name) != name:
                    raise ValueError(f"{spelling!r} names both {self._known[key(spelling)]} and {name}")
        for spelling, name in list(self._known.items()):  # `qwen3_0_6b`, where no other has that size
            self._known.setdefault(spelling.replace(POINT, ""), name)

    def find(self, name: str) -> str | None:
        """The canonical name behind `name`, or None."""
        wanted = key(name)
        while wanted not in self._known:
            shorter = self._shorter(wanted)
            if shorter == wanted:
                return None
            wanted = shorter
        return self._known[wanted]

    def _shorter(self, wanted: str) -> str:
        """`wanted` without one optional prefix or suffix; itself where it has none."""
        for prefix in self._prefixes:
            if wanted.startswith(prefix):
                return wanted.removeprefix(prefix)
        for suffix in self._suffixes:
            if wanted.endswith(suffix):
                return wanted.removesuffix(suffix)
        return wanted

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Up to `count` canonical names that resemble `name` most, best first; at least one."""
        from difflib import SequenceMatcher  # only an error needs it

        wanted = key(name)
        ratio = {spelling: SequenceMatcher(None, spelling, wanted).ratio() for spelling in self._known}
        ranked = sorted(ratio, key=lambda spelling: (-ratio[spelling], spelling))
        return list(dict.fromkeys(self._known[spelling] for spelling in ranked))[:count]
