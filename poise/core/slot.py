"""The table of policy slots: what each decides, its method and hooks, and where it acts.

All code that needs the slots reads this table: how policies are found, the sections `policies` of files, the bundle,
`Control`, what a gateway refuses, `poise policies`, the test kit, recordings, and the table in docs/write-a-policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from inspect import getattr_static
from typing import Any, Final, Literal

from poise.core.errors import PolicyError
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Exchanged,
    Failed,
    Finished,
    FirstToken,
    Measured,
    Moved,
    MoveFailed,
    PeerEnded,
    PeerLost,
    PeerSent,
    Prefilled,
    Refused,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    Reported,
    Tick,
)

World = Literal["simulation", "gateway", "proxy", "ray", "inside", "planner"]
Side = Literal["control", "engine", "planner"]

USE: Final[Mapping[World, str]] = {
    "simulation": "in a scenario (poise simulate)",
    "gateway": "in a gateway (poise serve)",
    "proxy": "in a gateway with the section envoy",
    "ray": "in Ray Serve (docs/integrations.md)",
    "inside": "inside vLLM (docs/integrations.md)",
    "planner": "in Python, by a planner (docs/plan.md, docs/experts.md)",
}
"""The worlds: each one's name for users, and how a policy is used there."""

CLOSE: Final = 0.75
"""The similarity from which one name is taken for a misspelling of the other: one letter in four is wrong, or less."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One decision.

    name: in files, and of the bundle's field.  verb: the method that a class must have to fill it, and the folder of
    the built-in policies under `poise/policies`.  purpose: what it decides, in a few words.
    when: it is called.  hears: the events upon which it may be called; a planner and an engine call it without events.
    on: where it acts.  worlds: where a policy of it acts, as `USE` names them.  side: its caller.
    example, without: a policy for it, and what holds where none is given.
    default: the policy that a bundle has for it unless another is given, "" for none.
    also: further methods and attributes that a class must have.  hooks: those it may have, each with what it is for.
    several: whether many policies may fill it at once, each narrowing the others' choice.
    needed: whether a file must name one where it names the slot, for nothing holds without.
    exchangeable: whether its policy may be exchanged while requests are served.
    """

    name: str
    verb: str
    purpose: str
    when: str
    on: str
    worlds: tuple[World, ...]
    side: Side
    example: str
    without: str = ""
    default: str = ""
    hears: tuple[type[Event], ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)
    several: bool = False
    needed: bool = False
    exchangeable: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """All names of methods and attributes that are used of a class for this slot."""
        return (self.verb, *self.also, *self.hooks, *_ANY)

    def fills(self, policy: Any) -> bool:
        """Whether an object, or a class, has the method."""
        return callable(getattr(policy, self.verb, None))


_ANY: Final = {
    "needs": "the columns of the cluster view that it reads",
    "reads_predictions": "True where it reads `predicted_tokens`",
}
"""The hooks of any slot."""

_OBSERVE: Final = {"observe": "observe(event): called with every event, before anything is decided"}
_TURNS: Final = {
    "joined": "joined(request): a request begins to wait (again, where it was sent and came back)",
    "taken": "taken(request, replica, cluster): a request is sent, before the view counts it",
    "ended": "ended(request): once for each that joined, however it ended",
}
_REVEAL: Final = {"reveal": "reveal(truth): the simulator passes a function that knows the future"}

_SENT: Final = "where the gateway itself sends requests"
_EVERYWHERE: Final[tuple[World, ...]] = ("simulation", "gateway", "proxy", "ray")
_NEWS: Final = (Reported, Measured, Tick, Exchanged)
"""Events after which movers, lenders and recoveries are called: there is new information."""
_FREES: Final = (
    Finished, Failed, Prefilled, Cancelled, Refused, Moved, MoveFailed, ReplicaLost, ReplicaJoined, ReplicaLeft,
    FirstToken, PeerEnded, PeerLost, *_NEWS,
)  # fmt: skip
"""Events after which held requests are decided again."""

_TABLE: Final = (
    Slot(
        "router", "route", "which replica gets a request", "for each request at the gateway",
        "at the gateway", _EVERYWHERE, "control", "prefix_cache",
        without="the least loaded of the replicas that have most of its prompt",
        default="cache_aware", needed=True, hears=(Arrived, *_FREES), exchangeable=True,
        also={"needs": "the columns of the cluster view that it reads"},
        hooks={
            **_OBSERVE,
            "group": "group(request): requests that wait for the same thing; groups do not wait for one another",
            "move": "a mover's method: then the router moves requests too, where no mover is given",
            "eager": "a mover's attribute",
            "without_prefixes": "what it goes by where requests have no prefix identity, in words",
        },
    ),
    Slot(
        "mover", "move", "which requests change their replica after they were sent",
        "after reports and wakes; a router may have the method too", _SENT, ("simulation", "gateway"), "control",
        "central_search", without="the router, if it can move requests", hears=(Arrived, *_NEWS), exchangeable=True,
        hooks={**_OBSERVE, "eager": "True to be asked after each arrival too"},
    ),
    Slot(
        "lender", "lend", "which replicas use KV blocks of others", "after reports and wakes",
        "between engines that lend KV blocks", ("simulation",), "control", "infinite_llm",
        without="no replica uses KV blocks of another", hears=_NEWS, hooks=_OBSERVE,
    ),
    Slot(
        "order", "order", "the order in which the gateway releases queued requests",
        "when the gateway holds requests", "at the gateway", _EVERYWHERE, "control", "virtual_token_counter",
        without="first come, first served", hears=(Arrived, PeerSent, *_FREES), exchangeable=True,
        also={
            "flow": "flow(request): the queue that it joins",
            "key": "key(request): its place there, the least first",
            "taken": _TURNS["taken"],
        },
        hooks={**_OBSERVE, **_TURNS, "without_prefixes": "as a router's"},
    ),
    Slot(
        "admission", "admit", "which requests may be sent, and where to",
        "before the router, for each request", "at the gateway", _EVERYWHERE, "control", "ceiling",
        without="all are admitted", hears=(Arrived, PeerSent, *_FREES), several=True, exchangeable=True,
        hooks={
            **_OBSERVE, **_TURNS,
            "enter": "enter(request, cluster): asked once, when a request arrives; a Reject turns it away at the door",
            "entered": "entered(request, cluster): another gateway admitted a request",
        },
    ),
    Slot(
        "predictor", "predict", "how many output tokens a request will have",
        "when a request arrives", "at the gateway", ("simulation", "gateway", "proxy"), "control", "history",
        without="nothing is predicted", hears=(Arrived,), exchangeable=True,
        also={"learn": "learn(request, output_tokens): called for each request that finished"},
        hooks={**_OBSERVE, **_REVEAL},
    ),
    Slot(
        "hedge", "hedge", "which requests are sent to a second replica too",
        "when a request waited for its first token as long as `wait` returned", _SENT, ("simulation", "gateway"),
        "control", "tail", without="none is sent twice", hears=(Tick,), exchangeable=True,
        also={"wait": "wait(request, replica, cluster): picoseconds until a copy is asked for, 0 for never"},
        hooks={**_OBSERVE, "taken": _TURNS["taken"], "ended": _TURNS["ended"]},
    ),
    Slot(
        "scaler", "scale", "how many replicas each pool has, and in which role",
        "every `period_s` seconds", "at the gateway", ("simulation", "gateway", "proxy"), "control", "kpa",
        without="as many as at the start", hears=(Tick,),
        also={"period_s": "seconds between two decisions"},
        hooks={
            **_OBSERVE,
            "ahead_s": "seconds that `cluster.rate` is forecast for",
            "converts": "the roles that it changes between, where it answers with Convert",
            "first_token": "where an engine must make first tokens for it to read them right",
        },
    ),
    Slot(
        "forecast", "forecast", "how many requests will come, for a scaler", "before the scaler",
        "at the gateway", ("simulation", "gateway", "proxy"), "control", "recent", without="nothing is forecast",
        hears=(Tick,), hooks={**_OBSERVE, **_REVEAL},
    ),
    Slot(
        "recovery", "recover", "what becomes of the requests of a replica that goes",
        "while a replica drains that will be gone at an instant", "on replicas that are warned before they go",
        ("simulation",), "control", "migrate", without="they are computed again, as by recompute",
        hears=(Draining, FirstToken, *_NEWS),
        also={"resumes": "whether a lost request goes on behind the tokens that its client has"},
        hooks={**_OBSERVE, "patience_s": "seconds after which KV on its way is given up"},
    ),
    Slot(
        "queue", "queue", "in which order an engine admits requests", "once for each that joins the queue",
        "inside engines", ("simulation", "inside"), "engine", "priority", without="first come, first served",
        hooks={
            "place": "place(sequence): asked instead, so that it can see which requests were preempted or pinned",
            "charge": "charge(request, prompt_tokens, output_tokens): what was served; then requests queue in flows",
            "flow": "flow(request): with `charge`, the flow that it joins",
            "rank": "rank(flow, ahead, now): with `charge`, which flow goes first, the least",
            "joined": "joined(request, waiting): with `charge`, a flow begins to wait",
        },
    ),
    Slot(
        "batcher", "batch", "which work shares the next step of an engine",
        "when a lane is free and something changed", "inside engines", ("simulation", "inside"), "engine", "sarathi",
        without="chunked prefill, as vLLM has it", default="chunked",
        hooks={
            "decodes_alone": "True where it always answers with all decodes when no prompt waits or is under way",
            "budgeted": "True where it fills a token budget just as `chunked` does",
            "tokens": "with `budgeted`, the budget of a step",
            "long_prefill": "with `budgeted`, the most of one prompt in a step",
            "served": "served(request, tokens, now): called for each first token and each end",
            "waits": "waits(sequence, place): a request begins to wait here",
            "waited": "waited(sequence): it no longer does",
            "phases": "True where it gives a device to prompts or to decodes alone",
            "lanes": "True where it shares a device between a lane for prompts and one for decodes",
            "prompts_first": "True where it is called before room is made for decodes",
            "retracted": "retracted(lane): with `prompts_first`, requests were preempted for that room",
            "late_prefix": "True where prompts find what others compute once that step is over",
            "pairs": "False where it serves no pool that prefills or decodes alone",
        },
    ),
    Slot(
        "preempt", "preempt", "which request is preempted when the KV cache is full",
        "when KV blocks run out, until the step fits", "inside engines", ("simulation", "inside"), "engine",
        "last_admitted", without="the request admitted last, by recompute", default="last_admitted",
        hooks={
            "swapping": "what copies of KV to host memory are like",
            "swap": "True where KV is swapped to host memory",
            "review": "review(lane): which request is preempted between two steps although there is room",
            "place": "place(sequence): a queue's, to order the queue where no queue policy does",
        },
    ),
    Slot(
        "cache", "cache", "how long the KV of an ended request stays pinned", "when a request ends",
        "inside engines and on engines that take hints", ("simulation", "gateway", "inside"), "engine", "fixed_ttl",
        without="LRU alone",
        hooks={
            "returned": "returned(request, now): called for each request that arrives at the engine",
            "admitted": "admitted(sequence, now): called for each request that begins to run",
            "gives_way": "gives_way(request): which pin goes when room is needed, the least first",
            "rank": "rank(sequence, extent, blocks): which cached blocks are evicted, the least first",
            "evict_adapter": "evict_adapter(idle, now): which idle adapter (LoRA) leaves the device",
            **_REVEAL,
        },
    ),
    Slot(
        "placer", "place", "how many of which units serve a demand", "before anything runs",
        "before anything runs", ("planner",), "planner", "melange",
    ),
    Slot(
        "expert_balancer", "rebalance", "which ranks hold copies of which experts",
        "before a run, or with each new load of experts", "over the expert-parallel ranks of a replica", ("planner",),
        "planner", "eplb", default="floating_copies",
    ),
    Slot(
        "cap", "cap", "how fast the devices of a row may run, by priority",
        "at each reading of a row's power", "over the power of a row", ("planner",), "planner", "polca",
    ),
)  # fmt: skip

SLOTS: Final[Mapping[str, Slot]] = {slot.name: slot for slot in _TABLE}
"""All slots by name, in the order in which they are listed and called."""


def acting(world: World) -> tuple[str, ...]:
    """The names of the slots whose policies act in a world."""
    return tuple(name for name, slot in SLOTS.items() if world in slot.worlds)


def called_by(side: Side) -> tuple[str, ...]:
    """The names of the slots of one side."""
    return tuple(name for name, slot in SLOTS.items() if slot.side == side)


SCENARIO: Final = acting("simulation")
"""The slots that a scenario may name."""

CONTROL: Final = called_by("control")
"""The slots of `Control`."""

ENGINE: Final = called_by("engine")
"""The slots of an engine."""

EXCHANGEABLE: Final = tuple(name for name, slot in SLOTS.items() if slot.exchangeable)
"""The slots whose policies may be exchanged while requests are served."""


def elsewhere(name: str, world: World) -> str:
    """Why a slot does not act in a world, and where it does; empty if it acts."""
    slot = SLOTS[name]
    if world in slot.worlds:
        return ""
    return f"acts {slot.on}, not {USE[world]}; use it {' or '.join(USE[each] for each in slot.worlds)}, or leave it out"


def check_policy(name: str, policy: Any) -> None:
    """PolicyError where an object cannot fill a slot, or has a method that looks like a misspelling of a hook."""
    slot = SLOTS[name]
    if isinstance(policy, type):
        raise PolicyError(f"{name} is the class {policy.__name__}; give an object of it, as in {policy.__name__}()")
    if not slot.fills(policy):
        raise PolicyError(
            f"{name} is {policy!r}, which has no method {slot.verb!r}; give an object of a class that has it"
        )
    kind: type = type(policy)
    check_names(name, kind)


@cache
def check_names(name: str, kind: type) -> None:
    """PolicyError where a class for a slot has a public name that is almost one of the slot's.

    A misspelt hook would never be called, and nothing would say so. Names of other slots are known too, for one object
    may fill several; parameters are the class's own, and so is what resembles no name.
    """
    slot = SLOTS[name]
    known = {each for other in SLOTS.values() for each in other.known}
    for own in dir(kind):
        if own.startswith("_") or own in known or not _is_own(kind, own):
            continue
        near = get_close_matches(own, slot.known, 1, CLOSE)
        if near:
            raise PolicyError(
                f"{kind.__name__}.{own} is almost {near[0]!r}, by which a {name} is asked, and would never be called; "
                f"spell it so, or give a method of your own another name, as in _{own}"
            )


def _is_own(kind: type, name: str) -> bool:
    """Whether a name is a method, a property or a plain attribute of a class, and no field that is a parameter."""
    fields = getattr(kind, "__dataclass_fields__", {})
    slots = {each for base in kind.__mro__ for each in base.__dict__.get("__slots__", ())}
    return name not in fields and (name not in slots or callable(getattr_static(kind, name)))
