"""The signatures of fewest bytes, exactly: dynamic programming along the operations.

A state holds the signatures of all tensors that are still to be read. In a chain that is one signature, and the
program a shortest path over signatures; where tensors are read again later, it is one over their combinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from poise.core.errors import UserError
from poise.sharding.boxing import box, moved
from poise.sharding.graph import Graph, Op
from poise.sharding.plan import Plan, There, evaluate, feeds
from poise.sharding.rules import Rule, rules
from poise.sharding.signature import Mesh, Signature, broadcast, every

State = tuple[tuple[str, frozenset[Signature]], ...]
Chain = tuple["Chain", str, Signature | Rule] | None
"""What was chosen, last first."""
States = dict[State, tuple[float, There, Chain]]
"""The least cost of each state, and the choices that lead to it."""


def cheapest(
    graph: Graph, mesh: Mesh, allowed: Mapping[str, Sequence[Signature]], *, work: float = 0.0, limit: int = 200_000
) -> Plan:
    """The plan of fewest bytes in which the tensors of `allowed` are kept as one of their signatures.

    Others are kept as they are made; given ones may begin as any signature without sums.
    work: how many bytes a multiply-add is worth, summed over devices. With 0 it costs nothing to repeat all work on
    every device, with inf each operation is shared by as many as can. UserError where more than `limit` combinations of
    signatures are open at a time.
    """
    last = {name: at for at, op in enumerate(graph.ops) for name in op.inputs}
    states: States = {(): (0.0, {}, None)}
    for at, op in enumerate(graph.ops):
        for name in op.inputs:
            if name in graph.given and not any(name in before.inputs for before in graph.ops[:at]):
                states = _begin(states, name, allowed.get(name) or every(graph.shapes[name], mesh))
        done = {name for name in graph.shapes if last.get(name, -1) <= at}
        states = _one(graph, mesh, states, op, allowed.get(op.output), work, done)
        if len(states) > limit:
            raise UserError(f"{op.output}: over {limit} combinations of signatures; allow fewer of its tensors")
    _, _, chain = min(states.values(), key=lambda each: each[0])
    return _plan(graph, mesh, chain)


def _begin(states: States, name: str, signatures: Sequence[Signature]) -> States:
    """Each state with each signature of a given tensor."""
    found: States = {}
    for cost, there, chain in states.values():
        for each in signatures:
            more = {**there, name: (each,)}
            found[_key(more)] = (cost, more, (chain, name, each))
    return found


def _one(
    graph: Graph, mesh: Mesh, states: States, op: Op, kept: Sequence[Signature] | None, work: float, done: set[str],
) -> States:  # fmt: skip
    """The best way to each state behind an operation."""
    found: States = {}
    shape = graph.shapes[op.output]
    known = _shared(op, mesh) if work == inf else [(rule, work * op.work / rule.ways) for rule in rules(op, mesh)]
    for cost, there, chain in states.values():
        for rule, price in known:
            spent = cost + price * mesh.devices + sum(map(moved, feeds(graph, mesh, op, rule, there)))
            more = {name: each for name, each in there.items() if name not in done}
            for name, wanted in zip(op.inputs, rule.inputs, strict=True):
                if name in more and wanted not in more[name]:
                    more[name] = (*more[name], wanted)
            for after in kept or (rule.output,):
                total = spent + moved(box(shape, rule.output, after, mesh, graph.itemsize))
                behind = more if op.output in done else {**more, op.output: (after,)}
                key = _key(behind)
                if key not in found or total < found[key][0]:
                    found[key] = (total, behind, ((chain, op.output, after), op.output, rule))
    return found


def _shared(op: Op, mesh: Mesh) -> list[tuple[Rule, float]]:
    """The rules of most devices, whose work is no cost."""
    most = max(rule.ways for rule in rules(op, mesh))
    return [(rule, 0.0) for rule in rules(op, mesh) if rule.ways == most]


def _key(there: There) -> State:
    return tuple(sorted(((name, frozenset(each)) for name, each in there.items()), key=lambda pair: pair[0]))


def _plan(graph: Graph, mesh: Mesh, chain: Chain) -> Plan:
    signatures: dict[str, Signature] = {}
    chosen: dict[str, Rule] = {}
    while chain is not None:
        chain, name, what = chain
        if isinstance(what, Rule):
            chosen[name] = what
        else:
            signatures[name] = what
    given = {name: signatures.get(name, broadcast(len(graph.shapes[name]))) for name in graph.given}
    return evaluate(graph, mesh, given, chosen, signatures)
