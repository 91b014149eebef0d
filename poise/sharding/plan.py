"""A graph with a rule for each operation: what is boxed where, and how many bytes move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from poise.sharding.boxing import Moves, box, moved
from poise.sharding.graph import Graph, Op
from poise.sharding.rules import Rule, rules
from poise.sharding.signature import Mesh, Signature

There = dict[str, tuple[Signature, ...]]
"""By tensor all signatures that it has been boxed to."""


@dataclass
class Plan:
    """The signatures of all tensors, and the moves between them.

    A tensor that is boxed for one operation stays there in that signature for later ones.
    """

    graph: Graph
    mesh: Mesh
    kept: dict[str, Signature] = field(default_factory=dict)
    """What each tensor is kept as: a given one from the start, one that is made behind its operation."""
    rules: dict[str, Rule] = field(default_factory=dict)
    """For each operation, by its output."""
    moves: list[tuple[str, str, Moves]] = field(default_factory=list)
    """Tensor, the output of the operation that it is boxed for (its own name: behind it is made), and how."""

    @property
    def bytes(self) -> int:
        """Moved over all devices."""
        return sum(moved(each) for _, _, each in self.moves)

    @property
    def work(self) -> int:
        """Multiply-adds over all devices, repeated ones included."""
        return sum(op.work * self.mesh.devices // self.rules[op.output].ways for op in self.graph.ops)

    def held(self, names: Sequence[str]) -> int:
        """Bytes of some tensors on one device."""
        shapes = self.graph.shapes
        return sum(prod(self.kept[name].local(shapes[name], self.mesh)) for name in names) * self.graph.itemsize

    def collectives(self) -> dict[str, int]:
        """How many there are of each kind; free moves are not counted."""
        found: dict[str, int] = {}
        for _, _, moves in self.moves:
            for move in moves:
                if move.bytes:
                    found[move.collective] = found.get(move.collective, 0) + 1
        return found

    def text(self) -> str:
        """A line for each tensor: its signature, and what is moved."""
        lines = []
        for name, kept in self.kept.items():
            found = [
                f"{move.collective} along {move.axis} for {to}: {move.bytes:,} B"
                for each, to, moves in self.moves if each == name
                for move in moves if move.bytes
            ]  # fmt: skip
            lines.append(f"{name:12} {kept.text(self.mesh):10} {'; '.join(found)}".rstrip())
        return "\n".join(lines)


def evaluate(
    graph: Graph, mesh: Mesh, given: Mapping[str, Signature], chosen: Mapping[str, Rule],
    kept: Mapping[str, Signature] | None = None,
) -> Plan:  # fmt: skip
    """The plan of given signatures and a rule for each operation. `kept`: of tensors that are boxed once made."""
    plan = Plan(graph, mesh, dict(given))
    there: There = {name: (each,) for name, each in given.items()}
    for op in graph.ops:
        _run(plan, op, chosen[op.output], there, (kept or {}).get(op.output))
    return plan


def greedy(graph: Graph, mesh: Mesh, kept: Mapping[str, Signature]) -> Plan:
    """The plan of these signatures in which each operation takes the rule of fewest bytes, then of least work."""
    plan = Plan(graph, mesh, {name: kept[name] for name in graph.given})
    there: There = {name: (kept[name],) for name in graph.given}
    for op in graph.ops:
        _run(plan, op, _cheapest(graph, mesh, op, there, kept.get(op.output)), there, kept.get(op.output))
    return plan


def _cheapest(graph: Graph, mesh: Mesh, op: Op, there: There, kept: Signature | None) -> Rule:
    """The rule of fewest bytes, then of most devices that share the work: those of cheap inputs are looked at first."""
    known = rules(op, mesh)
    order = sorted(
        (sum(map(moved, feeds(graph, mesh, op, rule, there))), -rule.ways, at) for at, rule in enumerate(known)
    )
    best = None
    for into, ways, at in order:
        if best is not None and into > best[0]:
            break
        after = known[at].output if kept is None else kept
        behind = moved(box(graph.shapes[op.output], known[at].output, after, mesh, graph.itemsize))
        best = min(best or (into + behind, ways, at), (into + behind, ways, at))
    assert best is not None  # splitting nothing is always a rule
    return known[best[2]]


def feeds(graph: Graph, mesh: Mesh, op: Op, rule: Rule, there: There) -> list[Moves]:
    """How each input gets to what the rule needs, from the nearest signature in which it is there."""
    found: list[Moves] = []
    seen: set[tuple[str, Signature]] = set()
    for name, wanted in zip(op.inputs, rule.inputs, strict=True):
        if (name, wanted) in seen:
            found.append(())
            continue
        seen.add((name, wanted))
        ways = (box(graph.shapes[name], each, wanted, mesh, graph.itemsize) for each in there[name])
        found.append(min(ways, key=moved))
    return found


def _run(plan: Plan, op: Op, rule: Rule, there: There, kept: Signature | None) -> None:
    graph, mesh = plan.graph, plan.mesh
    for name, wanted, moves in zip(op.inputs, rule.inputs, feeds(graph, mesh, op, rule, there), strict=True):
        if moves:
            plan.moves.append((name, op.output, moves))
        if wanted not in there[name]:
            there[name] += (wanted,)
    made = rule.output if kept is None else kept
    if made != rule.output:
        plan.moves.append((op.output, op.output, box(graph.shapes[op.output], rule.output, made, mesh, graph.itemsize)))
    plan.rules[op.output], plan.kept[op.output] = rule, made
    there[op.output] = (made,)
