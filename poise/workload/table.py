"""The columns of a workload: arrivals, lengths, identities and dependencies of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from poise.workload.director import Director

Ints = NDArray[np.integer[Any]]

# The methods below import their files when called: those files import this one.


@dataclass(slots=True)
class Prefixes:
    """Prompt identity as extents: request i's prompt is `ids[offsets[i]:offsets[i+1]]`, each ending at `ends[…]`.

    Equal ids mean an equal prompt up to the end of that extent (an id names its whole prefix, not only its own
    tokens). The last extent may end before the prompt does: what is behind it is unique. `output[i]` is the id under
    which prompt and output together may be found by a later turn, -1 for none.
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    ends: NDArray[np.int32]
    output: NDArray[np.int64] | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        """Extents of each request."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The request that each extent belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    @property
    def next_id(self) -> int:
        """The smallest id that is larger than every id in use."""
        largest = int(self.ids.max(initial=-1))
        return 1 + (largest if self.output is None else max(largest, int(self.output.max(initial=-1))))


@dataclass(frozen=True, slots=True)
class Lanes:
    """A closed load of conversations: `count` lanes, each with one conversation at a time, until an end.

    play: the conversation that each row is part of, numbered in the order in which they begin; the first `count` ones
    begin in a lane each, and one that is over is followed by the next. The instants of rows do not count: those that
    wait for no other arrive `delay` after their conversation begins.
    primer: rows that fill the caches before; all of them must have ended before the first conversation begins.
    whole: for each conversation whether it begins with its first request.
    duration, grace: picoseconds, after the primers, in which requests arrive, and then may still be answered.
    idle, tree_idle: picoseconds for which nothing at all, or nothing of a conversation, is under way at most: then all
    that waits arrives that much earlier.
    """

    count: int
    play: NDArray[np.int32]
    primer: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    duration: int
    grace: int
    idle: int
    tree_idle: int


@dataclass(slots=True)
class Workload:
    """Requests in columns, sorted by `arrival`; instants and durations are int64 picoseconds.

    arrival: when request i arrives, from the start; for a request with predecessors it is ignored.
    prompt, output: tokens (int32); `output` is the truth, which no policy sees.
    after_offsets, after_ids, delay: joins; request i arrives `delay[i]` after the last of its predecessors ended.
    after_delay: for each of `after_ids` what must pass since that one ended, before it counts as ended for the join
    (None: nothing). So tools of different length can lie between a request and those it waits for.
    max_tokens: the client's limit (0: none).  model: index into `models` (None: the cluster's only one).
    lora, session, tenant: indices, -1 for none.  priority: lower is served first (vLLM's rule).
    adapter_ranks: of each adapter by its index, as far as they are known.
    images: how many come with each request, all of `image_size` pixels (width, height).  audio: milliseconds that do.
    Prompts count text alone; `poise.cost.encoder.expanded` adds what the model makes of both.
    stage: which step of its session's program, an index into `stages`, -1 for none.
    agent: which agent of its session: 0 the one that the user talks to, then its sub-agents; -1 for none.
    tool: which tool the answer calls, an index into `tools`, -1 for none: the session ends then.
    deadline, timeout: picoseconds after arrival, 0 for none; at its timeout a client leaves.
    retry: how often a client whose request was refused or lost sends it again.
    concurrency: closed load: at most that many requests in the system, the next one enters when one ends; 0 is open
    load.
    lanes: closed load of conversations, of which a number is under way at any time; None is any other load.
    endless: draws the rows of a number of seconds, where the arrivals were given no end; there are no rows then.
    directed: makes what decides, in each run anew, which rows arrive and when (`director.Director`); their instants and
    joins say no more than what may be. None: rows arrive as these say.
    source: where the rows come from and what was done to them, for provenance.
    """

    arrival: NDArray[np.int64]
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    prefixes: Prefixes | None = None
    after_offsets: NDArray[np.int64] | None = None
    after_ids: NDArray[np.int64] | None = None
    delay: NDArray[np.int64] | None = None
    after_delay: NDArray[np.int64] | None = None
    max_tokens: NDArray[np.int32] | None = None
    model: NDArray[np.int16] | None = None
    models: tuple[str, ...] = ()
    lora: NDArray[np.int32] | None = None
    adapter_ranks: tuple[int, ...] = ()
    images: NDArray[np.int16] | None = None
    image_size: tuple[int, int] = (1024, 1024)
    audio: NDArray[np.int32] | None = None
    session: NDArray[np.int32] | None = None
    tenant: NDArray[np.int32] | None = None
    priority: NDArray[np.int16] | None = None
    stage: NDArray[np.int16] | None = None
    stages: tuple[str, ...] = ()
    agent: NDArray[np.int32] | None = None
    tool: NDArray[np.int16] | None = None
    tools: tuple[str, ...] = ()
    deadline: NDArray[np.int64] | None = None
    timeout: NDArray[np.int64] | None = None
    retry: int = 0
    concurrency: int = 0
    lanes: Lanes | None = None
    endless: Callable[[float], Workload] | None = None
    directed: Callable[[], Director] | None = None
    source: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.prompt)

    def __repr__(self) -> str:
        return f"<Workload: {', '.join(f'{name} {value}' for name, value in self._facts().items())}>"

    def _repr_html_(self) -> str:
        """Its size in a few rows."""
        from poise.core.card import card, facts

        return card("Workload", facts(self._facts()))

    def _facts(self) -> dict[str, str]:
        """How much there is, in words."""
        if self.endless is not None:
            return {"arrivals": "without an end"}
        found = {"requests": f"{len(self):,}"}
        if not len(self):
            return found
        if not self.concurrency and (rate := self.rate) is not None:
            found["req/s"] = f"{rate:.4g}"
        if self.concurrency:
            found["at once"] = f"{self.concurrency:,}"
        found |= {"mean prompt tokens": f"{self.prompt.mean():.4g}", "mean output tokens": f"{self.output.mean():.4g}"}
        if self.session is not None:
            found["sessions"] = f"{len(np.unique(self.session[self.session >= 0])):,}"
        if self.prefixes is not None:
            found["prefix identity"] = "yes"
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, prefix identity included."""
        columns = [getattr(self, each.name) for each in fields(self)]
        if self.prefixes is not None:
            columns += [getattr(self.prefixes, each.name) for each in fields(self.prefixes)]
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    @property
    def rate(self) -> float | None:
        """Requests per second between the first and the last stamp, successors not counted; None without span."""
        from poise.workload.summary import gaps_s

        gaps = gaps_s(self)
        span = float(gaps.sum())
        return len(gaps) / span if span else None

    def check(self) -> Workload:
        """Return itself when its columns keep the rules that worlds rely on, else raise TraceError naming the first."""
        from poise.workload.check import check

        check(self)
        return self

    def head(self, rows: int) -> Workload:
        """Return the first `rows` requests (all of them where there are fewer)."""
        from poise.workload.scale import head

        return head(self, rows)

    def thin(self, fraction: float, seed: int = 0) -> Workload:
        """Return the share `fraction` of the requests, in (0, 1]; whole sessions where there are any."""
        from poise.workload.scale import thin

        return thin(self, fraction, seed)

    def superpose(self, copies: int, seed: int = 0, *, within_s: float | None = None) -> Workload:
        """Return `copies` at once; the first is unchanged, the others are moved in time by seeded shifts."""
        from poise.workload.scale import superpose

        return superpose(self, copies, seed, within_s=within_s)

    def scaled(self, factor: float, squeeze: bool = False, seed: int = 0) -> Workload:
        """Return the workload at `factor` times its rate: thinned, superposed or, with `squeeze`, compressed."""
        from poise.workload.scale import scaled

        return scaled(self, factor, squeeze, seed)

    def at_rate(self, rate: float, squeeze: bool = False, seed: int = 0) -> Workload:
        """Return the workload scaled to `rate` requests per second, successors not counted."""
        from poise.workload.scale import at_rate

        return at_rate(self, rate, squeeze, seed)

    def reachable_hit_rate(self, block_tokens: int = 16, warmup_s: float = 0.0) -> float:
        """Return the share of prompt tokens that a cache which never evicts would find; 0.0 without identity."""
        from poise.workload.reuse import reachable_hit_rate

        return reachable_hit_rate(self, block_tokens, warmup_s)

    def reachable_tokens(self, block_tokens: int = 16) -> NDArray[np.int64]:
        """Return the prompt tokens of each request that a cache which never evicts would find."""
        from poise.workload.reuse import reachable_tokens

        return reachable_tokens(self, block_tokens)

    def summary(self, block_tokens: int = 16, warmup_s: float = 0.0) -> dict[str, Any]:
        """Return requests, rate, burstiness, lengths and reuse as plain numbers (summary.py lists the keys)."""
        from poise.workload.summary import summary

        return summary(self, block_tokens, warmup_s)
