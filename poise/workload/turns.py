"""Multi-turn sessions: each request of a workload becomes the first turn of a conversation that grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import count, durations, stream
from poise.workload.generate import MOST_ROWS
from poise.workload.lengths import LONGEST, Spec, length, tokens
from poise.workload.rows import Rows, later, spans, take
from poise.workload.table import Prefixes, Workload


def sessions(
    starts: Workload,
    *,
    turns: Spec = 4,
    think_s: Spec = 10.0,
    user_tokens: Spec = 64,
    output_tokens: Spec | None = None,
    max_context: int | None = None,
    seed: int = 0,
) -> Workload:
    """Return sessions that begin with the rows of `starts`; each later turn comes `think_s` after the last one ended.

    turns: requests of one session.  think_s: seconds between an answer and the next question.  user_tokens: what the
    user adds each turn, so prompt = earlier prompt + earlier output + user_tokens.  output_tokens: lengths of the
    later answers; None draws them from those of `starts`.  max_context: a session ends before the turn whose prompt
    and output exceed it (first turns stay).  All but `max_context` are numbers or distributions.

    Shared prefixes of `starts` stay at the beginning of every turn, and each prompt and each output gets an id of its
    own: a turn finds what earlier turns left, whether they ended or only had their prompts computed. The stamps of
    later turns (start + think times) only order the rows. Closed loads are refused: for N users use
    `all_at_once(requests=N)`.
    """
    if starts.endless is not None:
        given: dict[str, Any] = {"turns": turns, "think_s": think_s, "user_tokens": user_tokens, "seed": seed}
        given |= {"output_tokens": output_tokens, "max_context": max_context}
        return later(starts, lambda rows: sessions(rows, **given))
    if starts.concurrency or starts.after_offsets is not None or starts.session is not None:
        cure = "build them from poisson, gamma, constant or all_at_once"
        raise ScenarioError(f"sessions need open load without sessions as their starts; {cure}")
    number = tokens(length(turns, "turns"), stream(seed, "turns"), len(starts), "turns").astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(number)])
    count("the number of turns", int(offsets[-1]), least=0, most=MOST_ROWS)
    session = np.repeat(np.arange(len(starts)), number)
    turn = np.arange(offsets[-1]) - offsets[session]
    many = take(starts, session)
    rows = len(many)
    think = durations("think_s", length(think_s, "think_s").draw(stream(seed, "think_s"), rows))
    added = tokens(length(user_tokens, "user_tokens"), stream(seed, "user_tokens"), rows, "user_tokens")
    many.delay = np.where(turn > 0, think, 0)
    many.arrival = many.arrival + _within(many.delay, offsets, session)
    many.output = np.where(turn > 0, _answers(starts, output_tokens, rows, seed), many.output).astype(np.int32)
    if many.max_tokens is not None:
        many.output = np.minimum(many.output, np.where(many.max_tokens > 0, many.max_tokens, LONGEST)).astype(np.int32)
    prompt = _grown(many, turn, added.astype(np.int64), offsets, session)
    limit = LONGEST if max_context is None else count("max_context", max_context)
    fits = (turn == 0) | (prompt + many.output <= limit)
    if max_context is None and not fits.all():
        raise ScenarioError(f"the sessions grow to {prompt.max()} tokens; {LONGEST} is the most; give max_context")
    many.prompt = np.minimum(prompt, LONGEST).astype(np.int32)
    many.session = session.astype(np.int32)
    many.prefixes = _prefixes(starts, many, turn, session, offsets)
    many.after_offsets = np.concatenate([[0], np.cumsum(turn > 0)])
    many.after_ids = np.flatnonzero(turn > 0) - 1
    # Prompts only grow, so what does not fit is the tail of its session and nothing that stays waits for it.
    kept = np.flatnonzero(fits)
    facts = {"sessions": len(starts), "requests": len(kept), "seed": seed}
    many.source = {**starts.source, "sessions": facts}
    return take(many, kept[np.lexsort((turn[kept], many.arrival[kept]))])


def _within(values: NDArray[np.int64], offsets: Rows, session: Rows) -> NDArray[np.int64]:
    """Running sums of `values` within each session, itself included."""
    total = np.cumsum(values)
    first = offsets[:-1]
    return total - (total[first] - values[first])[session]


def _answers(starts: Workload, spec: Spec | None, rows: int, seed: int) -> NDArray[np.int32]:
    rng = stream(seed, "output_tokens of turns")
    if spec is None:
        return starts.output[(rng.random(rows) * len(starts)).astype(np.int64)]
    return tokens(length(spec, "output_tokens"), rng, rows, "output_tokens")


def _grown(many: Workload, turn: Rows, added: NDArray[np.int64], offsets: Rows, session: Rows) -> NDArray[np.int64]:
    """Prompt tokens of every turn: the first prompt, then each earlier output and the user's additions."""
    before = np.concatenate([[0], many.output[:-1]]).astype(np.int64)
    return many.prompt + _within(np.where(turn > 0, before + added, 0), offsets, session)


def _prefixes(starts: Workload, many: Workload, turn: Rows, session: Rows, offsets: Rows) -> Prefixes:
    """Extents of every turn: those of its start, then prompt and output of each earlier turn, then its own prompt."""
    rows = np.arange(len(many))
    own_counts = 2 * turn + 1
    own_ends = np.cumsum(own_counts)
    owner = np.repeat(rows, own_counts)
    step = np.arange(own_ends[-1]) - (own_ends - own_counts)[owner]
    earlier = offsets[session[owner]] + step // 2
    whole = many.prompt[earlier].astype(np.int64) + np.where(step % 2 == 1, many.output[earlier], 0)
    first_id = 0 if starts.prefixes is None else starts.prefixes.next_id
    own: list[NDArray[Any]] = [owner, first_id + 2 * earlier + step % 2, whole]
    if starts.prefixes is not None:
        base_offsets, items = spans(starts.prefixes.offsets, session)
        base_owner = np.repeat(rows, np.diff(base_offsets))
        base_ends = starts.prefixes.ends[items]
        # The first turn's own prompt id takes the place of an extent that ends with that prompt: ends must ascend.
        inner = base_ends < starts.prompt[session[base_owner]]
        base = [base_owner[inner], starts.prefixes.ids[items][inner], base_ends[inner]]
        own = [np.concatenate([left, right]) for left, right in zip(base, own, strict=True)]
        order = np.argsort(own[0], kind="stable")
        own = [column[order] for column in own]
    ends = np.concatenate([[0], np.cumsum(np.bincount(own[0], minlength=len(many)))])
    return Prefixes(ends.astype(np.int64), own[1], own[2].astype(np.int32), first_id + 2 * rows + 1)
