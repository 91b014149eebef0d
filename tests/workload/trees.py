"""Random workloads with identity, built from real token sequences, and a slow cache to judge them by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from poise.workload import Prefixes, Workload

Tokens = tuple[object, ...]


@dataclass(frozen=True)
class Tokenized:
    """A workload with the tokens that each prompt and each output stand for."""

    workload: Workload
    prompts: list[Tokens]
    outputs: list[Tokens]


def unique(name: object, count: int) -> Tokens:
    return tuple((name, at) for at in range(count))


def common(one: Tokens, other: Tokens) -> int:
    """Tokens at the beginning that both have."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


def slow_hits(tree: Tokenized, block_tokens: int) -> list[int]:
    """Compare every prompt with all that earlier requests left, token by token; whole blocks, and never a whole prompt.

    The last token of an output is sampled and its KV never computed.
    """
    found = []
    for row, prompt in enumerate(tree.prompts):
        left = [tree.prompts[earlier] + tree.outputs[earlier][:-1] for earlier in range(row)]
        longest = max((common(prompt, each) for each in left), default=0)
        found.append(min(longest, len(prompt) - 1) // block_tokens * block_tokens)
    return found


@st.composite
def prefix_trees(draw: st.DrawFn, max_rows: int = 12) -> Tokenized:
    """Rows that take over a beginning of an earlier row, add extents of their own, and end in a unique tail or not."""
    rows = draw(st.integers(1, max_rows))
    paths: list[list[tuple[int, int]]] = []
    prompts: list[Tokens] = []
    next_id = 0
    for row in range(rows):
        path = list(draw(st.sampled_from(paths))) if paths and draw(st.booleans()) else []
        path = path[: draw(st.integers(0, len(path)))]
        for size in draw(st.lists(st.integers(1, 40), max_size=3)):
            path.append((next_id, size))
            next_id += 1
        tail = draw(st.integers(0 if path else 1, 30))
        paths.append(path)
        prompts.append(sum((unique(each, size) for each, size in path), ()) + unique(("tail", row), tail))
    outputs = draw(st.lists(st.integers(1, 20), min_size=rows, max_size=rows))
    gaps = draw(st.lists(st.integers(0, 10**12), min_size=rows, max_size=rows))
    workload = Workload(
        arrival=np.cumsum(gaps).astype(np.int64),
        prompt=np.array([len(prompt) for prompt in prompts], dtype=np.int32),
        output=np.array(outputs, dtype=np.int32),
        prefixes=Prefixes(
            offsets=np.cumsum([0, *map(len, paths)]).astype(np.int64),
            ids=np.array([each for path in paths for each, _ in path], dtype=np.int64),
            ends=np.array([end for path in paths for end in np.cumsum([s for _, s in path])], dtype=np.int32),
        ),
    )
    return Tokenized(workload, prompts, [unique(("output", row), size) for row, size in enumerate(outputs)])


@st.composite
def joined(draw: st.DrawFn, max_rows: int = 20) -> Workload:
    """Rows with random joins to earlier rows."""
    rows = draw(st.integers(1, max_rows))
    after = [draw(st.lists(st.integers(0, row - 1), max_size=2, unique=True)) if row else [] for row in range(rows)]
    stamps = [0]
    for _ in range(1, rows):
        stamps.append(stamps[-1] + draw(st.integers(0, 10**12)))
    return Workload(
        arrival=np.array(stamps, dtype=np.int64),
        prompt=np.arange(1, rows + 1, dtype=np.int32),
        output=np.ones(rows, dtype=np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]).astype(np.int64),
        after_ids=np.array([each for row in after for each in row], dtype=np.int64),
        delay=np.zeros(rows, dtype=np.int64),
    )


def predecessors(workload: Workload, row: int) -> list[int]:
    assert workload.after_offsets is not None and workload.after_ids is not None
    return workload.after_ids[workload.after_offsets[row] : workload.after_offsets[row + 1]].tolist()


def extents(workload: Workload, row: int) -> list[tuple[int, int]]:
    found = workload.prefixes
    assert found is not None
    span = slice(found.offsets[row], found.offsets[row + 1])
    return list(zip(found.ids[span].tolist(), found.ends[span].tolist(), strict=True))
