"""Data ranks of attention that a source states in its notes, in words or by the flags of a server."""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"\b(?:attention[ _-](?:data[ _-]parallel(?:ism)?|dp)|dp[ _-]attention|data[ _-]parallel[ _-]attention|DEP ?\d*)\b",
    re.I,
)
_DENIED = re.compile(r"\b(?:no|not|off|without|disabled|false)\b|=\s*0\b", re.I)
_DEGREE = re.compile(r"--(?:dp|dp-size|data-parallel-size)[ =](\d+)|\bDEP ?(\d+)\b")


def attention_ranks(notes: str, tensor: int) -> int:
    """The data ranks of attention within a group of `tensor` devices, 1 where the notes state none.

    All of the group where no degree is stated, or one that does not divide it. A clause that denies it counts for
    nothing: `attention_dp not stated`.
    """
    clauses = [each for each in re.split(r"[;,]|\. ", notes) if _WORDS.search(each)]
    if not any(not _DENIED.search(each) for each in clauses):
        return 1
    degree = next((int(one or other) for one, other in _DEGREE.findall(notes)), tensor)
    return degree if degree > 0 and tensor % degree == 0 else tensor
