"""Recorded conversations in the Weka format, made for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Entry = dict[str, Any]

BLOCK = 64


def request(t: float, prompt: int, output: int = 20, ids: list[int] | None = None, **more: Any) -> Entry:
    """A request at `t` of `prompt` tokens, with a hash id for each full block (default: 0, 1, …)."""
    ids = list(range(prompt // BLOCK)) if ids is None else ids
    return {"t": t, "type": "n", "model": "m", "in": prompt, "out": output, "hash_ids": ids, "stop": "tool_use", **more}


def marker(t: float, requests: list[Entry], **more: Any) -> Entry:
    """A sub-agent."""
    given = {"agent_id": "a", "subagent_type": "explore", "status": "completed", **more}
    return {"t": t, "type": "subagent", **given, "requests": requests}


def conversation(requests: list[Entry], scope: str = "local", name: str = "c") -> Entry:
    """A conversation of entries."""
    return {"id": name, "models": ["m"], "block_size": BLOCK, "hash_id_scope": scope, "requests": requests}


def put_lines(folder: Path, conversations: list[Entry], name: str = "agents.jsonl") -> Path:
    """Write conversations, one a line."""
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in conversations))
    return path


def flat(entries: list[Entry]) -> Iterator[Entry]:
    """The requests among entries, those of sub-agents where their marker stands."""
    for entry in entries:
        if entry["type"] == "subagent":
            yield from flat(entry["requests"])
        else:
            yield entry


GAPS = st.sampled_from((0.0, 0.1, 2.0, 30.0, 700.0))


@st.composite
def threads(draw: st.DrawFn, depth: int, begin: float, most: int = 4) -> list[Entry]:
    """The entries of one agent from `begin` on, with sub-agents down to `depth`."""
    at, prompt, made = begin, draw(st.integers(65, 900)), list[Entry]()
    for turn in range(draw(st.integers(1, most))):
        gap, took, output = draw(GAPS), draw(st.sampled_from((0.5, 4.0))), draw(st.integers(0, 60))
        at += gap
        kept = {} if draw(st.booleans()) else {"think_time": gap}
        timed = {} if draw(st.booleans()) else {"api_time": took}
        made.append(request(round(at, 3), prompt, output, draw(_ids(prompt)), **kept, **timed))
        at += took
        for number in range(draw(st.integers(0, 2)) if depth and turn < most - 1 else 0):
            inner = draw(threads(depth - 1, 0.1 * number, 2))
            made.append(marker(round(at, 3), inner))
        prompt += draw(st.integers(-50, 400)) if prompt > 200 else draw(st.integers(0, 400))
    return made


@st.composite
def _ids(draw: st.DrawFn, prompt: int) -> list[int]:
    """Ids of a prompt's blocks: those that all prompts begin with, parted from some block on."""
    blocks = prompt // BLOCK
    parted, branch = draw(st.integers(0, 14)), draw(st.sampled_from((100, 200)))
    return [at if at < parted else branch + at for at in range(blocks)]


TREES = threads(2, 0.0).map(conversation)
"""A conversation with sub-agents, and sub-agents of these."""
