"""The backward pass as operations of the same graph: for each input of an operation the gradient by its equation."""

from __future__ import annotations

from poise.core.errors import UserError
from poise.sharding.graph import Graph, Op


def backward(graph: Graph, output: str, *, skip: frozenset[str] = frozenset()) -> dict[str, str]:
    """Add the backward pass of `output`, whose gradient is given as `d.OUTPUT`; the names of all gradients by tensor.

    The gradient of a tensor that several operations read is the sum of theirs. skip: given tensors without gradients,
    as tokens.
    """
    if output not in graph.shapes:
        raise UserError(f"{output}: the graph has no such tensor; give one of {', '.join(graph.shapes)}")
    forward = list(graph.ops)
    parts: dict[str, list[str]] = {output: [graph.input(f"d.{output}", *graph.shapes[output])]}
    found: dict[str, str] = {}
    for op in reversed(forward):
        if op.output in parts:
            found[op.output] = _whole(graph, op.output, parts[op.output])
            for at, name in enumerate(op.inputs):
                if name not in skip:
                    made = _gradient(graph, op, at, found[op.output], f"d.{name}.{len(parts.get(name, []))}")
                    parts.setdefault(name, []).append(made)
    given = [name for name in graph.given if name in parts and name not in found]
    return found | {name: _whole(graph, name, parts[name]) for name in given}


def _whole(graph: Graph, name: str, parts: list[str]) -> str:
    """The sum of a tensor's gradients."""
    return parts[0] if len(parts) == 1 else graph.add(f"d.{name}", *parts)


def _gradient(graph: Graph, op: Op, at: int, above: str, name: str) -> str:
    """The gradient of one input: linear in the one above; of a product it is the product with the other inputs."""
    if op.kind == "add":
        others: list[int] = []
    elif op.kind == "einsum":
        others = [each for each in range(len(op.inputs)) if each != at]
    elif op.kind == "embedding":
        others = [0]
    else:
        others = list(range(len(op.inputs)))
    words = [op.made, *(op.words[each] for each in others)]
    equation = f"{', '.join(map(' '.join, words))} -> {' '.join(op.words[at])}"
    inputs = (above, *(op.inputs[each] for each in others))
    kind = op.kind if op.kind == "einsum" else f"gradient of {op.kind}"
    linear = [frozenset({each}) for each in range(len(inputs))] if kind == "einsum" else [frozenset({0})]
    return graph.add_op(
        kind, name, equation, inputs, whole="".join(sorted(op.whole)), linear=tuple(linear), sizes=dict(op.sizes)
    )
