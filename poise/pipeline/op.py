"""One operation of a pipeline schedule, in PyTorch's written form: `2F0` is stage 2, forward, microbatch 0.

Recomputing, copies to the host and the vocabulary passes, which PyTorch lacks, are written the same way.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from poise.core.errors import ScheduleError


class Kind(IntEnum):
    """What an operation does; the names are those of PyTorch's files."""

    F = 0
    """Forward."""
    I = 1  # noqa: E741
    """Gradient of the input alone."""
    W = 2
    """Gradient of the weights alone."""
    B = 3
    """Backward in one piece: input and weights."""
    SEND_F = 4
    """Send the stage's output to the next stage."""
    RECV_F = 5
    """Receive the stage's input from the stage before."""
    SEND_B = 6
    """Send the gradient of the stage's input to the stage before."""
    RECV_B = 7
    """Receive the gradient of the stage's output from the next stage."""
    REDUCE_GRAD = 8
    """Scale the stage's gradients by 1 / microbatches and sum them over its copies."""
    UNSHARD = 9
    """Gather the stage's weights."""
    RESHARD = 10
    """Free the gathered weights."""
    R = 11
    """Recompute the forward, of which only the input was kept."""
    OFFLOAD = 12
    """Have the activations copied to the host: here their memory is free."""
    RELOAD = 13
    """Begin to copy them back: here their memory is taken."""
    S = 14
    """Softmax of this rank's shard of the vocabulary; the stage number is the rank."""
    T = 15
    """The rest of the shard's work, after the exchange between shards."""


COMPUTE = frozenset({Kind.F, Kind.I, Kind.W, Kind.B, Kind.R, Kind.S, Kind.T})
"""The kinds that take a rank's time."""

COPIES = frozenset({Kind.OFFLOAD, Kind.RELOAD})

MESSAGES = frozenset({Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B})

WHOLE = frozenset({Kind.REDUCE_GRAD, Kind.UNSHARD, Kind.RESHARD})
"""The kinds that concern a stage as a whole and so have no microbatch."""

COMMUNICATIONS = MESSAGES | WHOLE
"""The kinds that follow from the others; a schedule without them is complete."""

_NAMES = [kind.name for kind in Kind]
_FORM = re.compile(rf"(\d{{1,9}})({'|'.join(sorted(_NAMES, key=len, reverse=True))})(\d{{0,9}})")


class Op(NamedTuple):
    """An operation on a stage, with its microbatch where it has one."""

    stage: int
    kind: Kind
    microbatch: int | None

    def __str__(self) -> str:
        return f"{self.stage}{_NAMES[self.kind]}{'' if self.microbatch is None else self.microbatch}"


def F(stage: int, microbatch: int) -> Op:
    """Forward of `microbatch` through `stage`."""
    return Op(stage, Kind.F, microbatch)


def I(stage: int, microbatch: int) -> Op:  # noqa: E743
    """Gradient of the stage's input."""
    return Op(stage, Kind.I, microbatch)


def W(stage: int, microbatch: int) -> Op:
    """Gradient of the stage's weights."""
    return Op(stage, Kind.W, microbatch)


def B(stage: int, microbatch: int) -> Op:
    """Backward in one piece."""
    return Op(stage, Kind.B, microbatch)


@lru_cache(maxsize=1 << 16)
def read_op(text: str) -> Op:
    """The operation that `text` writes; ScheduleError if it writes none."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ScheduleError(f"{text!r} is no operation; write stage, kind and microbatch, as in 2F0, 1B3 or 0SEND_F4")
    stage, name, microbatch = found.groups()
    kind = Kind[name]
    if (kind in WHOLE) == bool(microbatch):
        cure = f"write {stage}{name}" if kind in WHOLE else f"write {stage}{name}0 for microbatch 0"
        raise ScheduleError(f"{text!r}: {name} {'takes no' if kind in WHOLE else 'needs a'} microbatch; {cure}")
    return Op(int(stage), kind, int(microbatch) if microbatch else None)
