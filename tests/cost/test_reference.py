"""The closed forms give what a slow account of real layers, requests and tokens gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.coefficients import windowed_pairs

from .pools import pools, shares
from .reference import Slow

chunks = st.lists(st.builds(Chunk, st.integers(1, 60), st.integers(0, 60), st.just(0), st.just(0)), max_size=3)


@given(pools(), st.lists(st.integers(1, 90), max_size=3), chunks, shares)
@settings(max_examples=150, deadline=None)
def test_step_equals_the_slow_account(pool: Pool, contexts: list[int], chunks: list[Chunk], share: float) -> None:
    groups = pool.data * pool.pipeline
    contexts = [context for context in contexts for _ in range(groups)]  # every rank and stage gets the same requests
    if not contexts and not chunks:
        contexts = [1] * groups
    piece = Roofline().build(pool).step(StepShape(len(contexts), tuple(chunks), share))
    window = pool.model.window
    kept = sum(contexts)
    seen = sum(min(context, window) for context in contexts) if pool.model.window_layers else 0
    fast = piece.base + piece.per_kv * kept + piece.per_window * seen
    slow = Slow(pool, Roofline(), share).step(contexts, chunks) * 1e12
    assert fast == pytest.approx(slow, rel=1e-9, abs=2 + kept + seen)  # coefficients are rounded to a picosecond each
    assert all(isinstance(value, int) for value in piece[:4]) and piece.then is None


@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 200))
@settings(deadline=None)
def test_windowed_pairs(tokens: int, context: int, window: int) -> None:
    assert windowed_pairs(tokens, context, window) == sum(min(context + i, window) for i in range(1, tokens + 1))
