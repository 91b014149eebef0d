"""The rules of training a model in stages: F, B, I, W, R, and of an output layer in shards: S, T.

`arg` is (stage, sample). Contents are ("x", sample, n), an activation that has passed n stages of its path; ("ctx",
stage, sample, version of the weights), what a forward keeps; ("g", sample, n), a gradient that has passed all stages
but the first n; ("rest", stage, sample), what is left for W.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poise.program.content import Atom, Content, written
from poise.program.kinds import Contents, Fault, parameter, rule
from poise.program.program import Program
from poise.program.task import Task

STALE = "stale weights"
"""What a Program accepts whose backwards use other weights than their forwards."""


class _Place(NamedTuple):
    stage: int
    sample: int
    passed: int
    """Stages before this one on the sample's path."""
    last: bool


def _place(program: Program, task: Task) -> _Place:
    if not isinstance(task.arg, tuple) or len(task.arg) != 2:
        raise Fault(f"has the argument {task.arg!r}; give (stage, sample)")
    stage, sample = task.arg
    if not 0 <= sample < len(program.paths):
        raise Fault(f"is of sample {sample}; the Program has paths of {len(program.paths)}")
    path = program.paths[sample]
    if stage not in path:
        raise Fault(f"is of stage {stage}, which sample {sample} does not pass; its path is {' '.join(map(str, path))}")
    passed = path.index(stage)
    return _Place(stage, sample, passed, passed == len(path) - 1)


def _expect(found: Content, wanted: Atom, what: str) -> None:
    if found.only != wanted:
        has = " + ".join(map(written, found.atoms)) or "nothing"
        raise Fault(f"takes {has} for {what}; it needs {written(wanted)}")


def _weights(found: Content, stage: int) -> int:
    """The version of a stage's whole weights."""
    atom = found.only
    if atom is None or atom[:2] != ("w", f"w{stage}") or found.part != (0, 1):
        has = "a part of them" if found.part != (0, 1) else " + ".join(map(written, found.atoms)) or "nothing"
        raise Fault(f"takes {has} for the weights of stage {stage}; it needs all of them")
    return int(str(atom[2]))


def _forward(program: Program, task: Task, reads: Contents) -> tuple[_Place, Content]:
    place = _place(program, task)
    _need(reads, 2, "activation, weights")
    _expect(reads[0], ("x", place.sample, place.passed), "the activation")
    return place, Content.of("ctx", place.stage, place.sample, _weights(reads[1], place.stage))


def _need(reads: Contents, count: int, names: str) -> None:
    if len(reads) < count:
        raise Fault(f"reads {len(reads)} values; it needs {names}")


@rule("F")
def forward(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Reads activation and weights; writes the next activation and what backward needs."""
    place, context = _forward(program, task, reads)
    return [Content.of("x", place.sample, place.passed + 1), context][: len(task.writes)]


@rule("F_NO_GRAD")
def forward_without_gradient(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """The same where it is recomputed: writes the next activation and keeps the one that it read."""
    place, _ = _forward(program, task, reads)
    return [Content.of("x", place.sample, place.passed + 1), reads[0], Content({})][: len(task.writes)]


@rule("R")
def recompute(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Reads activation and weights; writes what backward needs."""
    return [_forward(program, task, reads)[1]]


@rule("B", "I")
def backward(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """B reads context, weights, sums of gradients, the gradient of its output; writes that of its input, and the sums.

    I reads no sums, and writes what W needs in their place. The end of a path takes no gradient, or that of the shards
    of the output layer; its beginning gives none.
    """
    place = _place(program, task)
    _need(reads, 2, "context, weights")
    context = reads[0].only
    version = _weights(reads[1], place.stage)
    used = int(str(context[3])) if context is not None and context[0] == "ctx" else version
    _expect(reads[0], ("ctx", place.stage, place.sample, used), "what its forward kept")
    if used != version and STALE not in program.accepts:
        raise Fault(f"uses version {version} of the weights, its forward version {used}; keep that one for it")
    sums = len(task.writes) - (place.passed > 0) if task.kind == "B" else 0
    _incoming(program, place, reads[2 + sums :])
    before = [Content.of("g", place.sample, place.passed)] * (place.passed > 0)
    if task.kind == "I":
        return [*before, Content.of("rest", place.stage, place.sample)]
    return [*before, *_summed(place, task.reads[2 : 2 + sums], reads[2 : 2 + sums])]


def _incoming(program: Program, place: _Place, given: Contents) -> None:
    """The gradient of the output."""
    if not place.last:
        if not given:
            raise Fault("reads no gradient of its output; receive it from the next stage of the path")
        _expect(given[0], ("g", place.sample, place.passed + 1), "the gradient of its output")
    elif given:
        _shards(program, place.sample, given[0])
    elif "S" in program.kinds:
        raise Fault("does not wait for the shards of the output layer, which make its gradient; read their sum")


def _shards(program: Program, sample: int, found: Content) -> None:
    """What all shards have computed of a sample."""
    kinds = {atom[0] for atom in found.atoms}
    wanted = {(kind, sample, rank): 1 for kind in kinds for rank in range(program.shards)}
    if len(kinds) != 1 or dict(found.atoms) != wanted:
        raise Fault(f"takes {' + '.join(map(written, found.atoms))} for the sum over the shards of sample {sample}")


def _summed(place: _Place, names: Sequence[str], sums: Contents) -> list[Content]:
    return [
        each.plus({(parameter(name), place.stage, place.sample): 1}) for name, each in zip(names, sums, strict=True)
    ]


@rule("W")
def weight(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Reads what I left and the sums of gradients; writes the sums."""
    place = _place(program, task)
    _need(reads, 2, "what I left, sums of gradients")
    _expect(reads[0], ("rest", place.stage, place.sample), "what I left")
    return _summed(place, task.reads[1:], reads[1:])


@rule("S")
def softmax(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Reads the last activation; writes this shard's part of the loss. `arg` is (rank, sample)."""
    rank, sample = task.arg if isinstance(task.arg, tuple) else (0, 0)
    _expect(reads[0], ("x", sample, len(program.paths[sample])), "the last activation")
    return [Content.of("loss", sample, rank)]


@rule("T")
def rest_of_shard(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Reads the sums over the shards and of gradients; writes the latter, and this shard's part of the gradient."""
    rank, sample = task.arg if isinstance(task.arg, tuple) else (0, 0)
    _shards(program, sample, reads[0])
    own = reads[1].plus({(parameter(task.reads[1]), rank, sample): 1})
    return [own, Content.of("grad", sample, rank)][: len(task.writes)]
