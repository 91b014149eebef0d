"""What comes from an engine, damaged."""

from __future__ import annotations

from hypothesis import strategies as st

Damage = list[tuple[int, int, bytes]]
"""Where, how many bytes go, and what comes in their place."""

MARKS = (b'"', b"\\", b"{", b"}", b"\n", b" ", b"\xff", b"\xc1")
WORDS = (b"", b"NaN", b"-Inf", b"1e999", b"-1", b"9" * 400, b"0x1", *MARKS)
DAMAGE = st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 30), st.sampled_from(WORDS)), max_size=8)


def damaged(data: bytes, damage: Damage) -> bytes:
    """What was said, with each place damaged in turn."""
    for at, gone, put in damage:
        at %= len(data) + 1
        data = data[:at] + put + data[at + gone :]
    return data
