"""The outcome of every request: one row a request, in columns, filled while a world runs."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from poise.core.records.blame import Blame
from poise.core.spec import Role

FINISHED: Final = 0
REJECTED: Final = 1
TIMED_OUT: Final = 2
CANCELLED: Final = 3
LOST: Final = 4
UNFINISHED: Final = 5
STATUS = ("finished", "rejected", "timed_out", "cancelled", "lost", "unfinished")
"""Names of the ends a request can meet; `Records.status` holds their index."""

NOT_YET: Final = -1
"""An instant that is not known yet."""


def _instants(rows: int) -> array[int]:
    return array("q", [NOT_YET]) * rows


def _counts(rows: int) -> array[int]:
    return array("i", [0]) * rows


@dataclass(slots=True)
class Records:
    """Columns over requests (index = request id), 58 bytes a row; instants in picoseconds, `NOT_YET` where none.

    arrived_at: when the client sent it.  dispatched_at: when it was (last) sent to a replica.
    first_token_at, ended_at: when the client had its first token and its end, however it ended.
    replica: where its prompt was computed, `decode_replica`: where its output was (another in a P/D pair); -1: nowhere.
    prompt_tokens, output_tokens: tokens asked and tokens the client received.
    cached_tokens: prompt tokens found in a prefix cache at (last) admission.
    preemptions, migrations, retries: number of times each happened to the request.
    """

    rows: int
    arrived_at: array[int] = field(init=False)
    dispatched_at: array[int] = field(init=False)
    first_token_at: array[int] = field(init=False)
    ended_at: array[int] = field(init=False)
    status: array[int] = field(init=False)
    replica: array[int] = field(init=False)
    decode_replica: array[int] = field(init=False)
    prompt_tokens: array[int] = field(init=False)
    output_tokens: array[int] = field(init=False)
    cached_tokens: array[int] = field(init=False)
    preemptions: array[int] = field(init=False)
    migrations: array[int] = field(init=False)
    retries: array[int] = field(init=False)

    def __post_init__(self) -> None:
        rows = self.rows
        self.arrived_at, self.dispatched_at = _instants(rows), _instants(rows)
        self.first_token_at, self.ended_at = _instants(rows), _instants(rows)
        self.status = array("b", [UNFINISHED]) * rows
        self.replica, self.decode_replica = array("i", [-1]) * rows, array("i", [-1]) * rows
        self.prompt_tokens, self.output_tokens = _counts(rows), _counts(rows)
        self.cached_tokens = _counts(rows)
        self.preemptions, self.migrations, self.retries = [array("b", [0]) * rows for _ in range(3)]


@dataclass(slots=True)
class ReplicaStats:
    """The work of one replica: picoseconds with a running step, steps, tokens computed and the peak of its KV blocks.

    prompting: the part of `busy` in steps with prompt work, summed over lanes.
    arriving: `busy` up to `Run.arrivals_end`.
    up_from, up_until: when its devices were taken (its start-up included) and given back; a slot that a scaler filled
    more than once has the earlier times in `before`.
    """

    busy: int = 0
    prompting: int = 0
    arriving: int = 0
    steps: int = 0
    batches: int = 0
    prompt_tokens: int = 0
    decode_tokens: int = 0
    peak_blocks: int = 0
    total_blocks: int = 0
    up_from: int = 0
    up_until: int = NOT_YET
    before: list[tuple[int, int]] = field(default_factory=list)


class Scaled(NamedTuple):
    """How many replicas of a pool are wanted since `at`, serve, start and drain, and how many slots are pre-warmed."""

    at: int
    pool: int
    wanted: int
    serving: int
    starting: int
    draining: int
    warm: int


class Converted(NamedTuple):
    """A replica that changed its role at `since` serves in it from `at` on."""

    since: int
    at: int
    replica: int
    role: Role


class Occurrence(NamedTuple):
    """A fault of the kind `kind` at a replica, from `at` until `until`, which may be at once, or never."""

    at: int
    until: int
    kind: str
    replica: int


@dataclass(slots=True)
class Conversations:
    """What agents' conversations add to the columns of requests.

    agent: of each request, 0 for the conversation itself, then its sub-agents; -1 for what belongs to none.
    play: the conversation of each request, -1 for those that only fill caches.
    whole: for each conversation whether it begins with its first request.  lanes: how many were under way, 0: all.
    reusable: prompt tokens that a cache which never evicts would hold, of each request; None: unknown.
    """

    agent: array[int]
    play: array[int]
    whole: array[int]
    lanes: int = 0
    reusable: array[int] | None = None


@dataclass(slots=True)
class Run:
    """The outcome of one simulated run: requests, replicas and the instants at which it began and ended.

    arrivals_end: when the last request arrived by its own stamp; `NOT_YET` where some wait for others (joins, a closed
    load), so that arrivals go on as long as the run does.
    offered: how many requests arrived (the others have no `arrived_at`).  interrupted: ended early, by the user or
    since enough was seen.
    refusals: how many requests were rejected for which reason.
    loans, loans_refused: how often KV blocks were lent, or nothing was granted.
    hedges: copies sent to a second replica.  hedges_won: those that gave the first token.  hedge_tokens: prompt tokens
    that the copies stopped for the other one had computed, whichever of the two they were.
    samples: optional timeline, one tuple `(instant, replica, waiting, running, used_blocks)` a sample.
    counted_from: when what fills the caches beforehand was over; 0 where nothing does.
    conversations: of agents, where requests belong to such.
    programs: the program (session, or rows joined to one another) of each request, -1 for none; None: there are none.
    counts: what decided about arrivals while it ran, as commits that were refused; empty where nothing did.
    blame: optional, where the time of each request went.
    scaled: the sizes of the pools, at the start and at each change, where a scaler decides.
    converted: the replicas that took another role.
    faults: the faults of replicas, links first.
    slices: optional batch timeline, `(start, end, replica, lane, decodes, prompt_tokens)` a held batch.
    """

    records: Records
    replicas: list[ReplicaStats]
    ended_at: int = 0
    arrivals_end: int = NOT_YET
    counted_from: int = 0
    offered: int = 0
    interrupted: bool = False
    refusals: dict[str, int] = field(default_factory=dict)
    loans: int = 0
    loans_refused: int = 0
    hedges: int = 0
    hedges_won: int = 0
    hedge_tokens: int = 0
    drained: bool = True
    samples: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    slices: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    scaled: list[Scaled] = field(default_factory=list)
    converted: list[Converted] = field(default_factory=list)
    faults: list[Occurrence] = field(default_factory=list)
    programs: array[int] | None = None
    counts: dict[str, float] = field(default_factory=dict)
    conversations: Conversations | None = None
    blame: Blame | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
