"""A backward in two parts, for any module: the gradients of the inputs now, those of the weights later.

Autograd's graph is cut where it leaves the ways from output to input: the nodes on these ways are run for the inputs
alone, and the gradients that come into those of them that also lead to weights are kept. The second part runs only
these nodes, for the weights alone, and what hangs below them. So nothing is computed twice, and a weight's gradient
needs no part of the graph above it. (The split is that of Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Gradients = tuple[Tensor | None, ...]


@dataclass
class Rest:
    """What the weight gradients are made of once the input gradients are there."""

    below: list[tuple[GradientEdge, Tensor]] = field(default_factory=list)
    """Edges that lead to weights alone, with their gradients."""
    crossings: list[tuple[Node, list[GradientEdge]]] = field(default_factory=list)
    """Nodes on the way to an input, with their edges that lead to weights alone."""
    caught: dict[Node, Gradients] = field(default_factory=dict)
    """The gradients that came into these nodes."""
    shared: set[Node] = field(default_factory=set)
    """Ends of such edges that more than one node leads to, as to weights that are used more than once."""


def input_gradients(
    roots: Sequence[GradientEdge], gradients: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[Gradients, Rest]:
    """The gradients of `inputs` from those of the outputs `roots`, and the rest for `weight_gradients`.

    An input that the outputs do not depend on gets None. A stage without inputs (the first) leaves all to the rest.
    """
    ends = [get_gradient_edge(each).node for each in inputs]
    leads, rest = _cut([root.node for root in roots], ends)
    rest.below = [(root, gradient) for root, gradient in zip(roots, gradients, strict=True) if root.node not in leads]
    live = [(root, gradient) for root, gradient in zip(roots, gradients, strict=True) if root.node in leads]
    if not live:
        return (None,) * len(inputs), rest
    handles = [node.register_prehook(_catch(rest.caught, node)) for node, _ in rest.crossings]
    try:
        found = torch.autograd.grad(
            [root for root, _ in live], list(inputs), [gradient for _, gradient in live],
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
    finally:
        for handle in handles:
            handle.remove()
    return found, rest


def weight_gradients(rest: Rest) -> None:
    """Add the gradients of all weights to their `.grad`; `rest` is used up."""
    entries = rest.below
    while rest.crossings:
        node, edges = rest.crossings.pop()
        entries += _enter(node, edges, rest.caught.pop(node, ()), rest.shared)
    if entries:
        torch.autograd.backward([edge for edge, _ in entries], [gradient for _, gradient in entries])
    entries.clear()


def backward(roots: Sequence[GradientEdge], gradients: Sequence[Tensor], inputs: Sequence[Tensor]) -> Gradients:
    """Both parts at once: the gradients of `inputs`, and those of the weights added to their `.grad`."""
    if roots:
        torch.autograd.backward(list(roots), list(gradients))
    return tuple(each.grad for each in inputs)


def _cut(roots: Iterable[Node], ends: Iterable[Node]) -> tuple[set[Node], Rest]:
    """The nodes from which an end can be reached, and the edges by which the graph leaves them."""
    above: dict[Node, list[Node]] = {node: [] for node in roots}
    stack = list(above)
    while stack:
        node = stack.pop()
        for child, _ in node.next_functions:
            if child is not None:
                if child not in above:
                    above[child] = []
                    stack.append(child)
                above[child].append(node)
    leads = {node for node in ends if node in above}
    stack = list(leads)
    while stack:
        for node in above[stack.pop()]:
            if node not in leads:
                leads.add(node)
                stack.append(node)
    rest = Rest()
    for node in leads:
        edges = list(dict.fromkeys(edge for edge in _edges(node) if edge is not None and edge.node not in leads))
        if edges:
            rest.crossings.append((node, edges))
            rest.shared |= {edge.node for edge in edges if len(set(above[edge.node])) > 1}
    return leads, rest


def _edges(node: Node) -> list[GradientEdge | None]:
    return [None if child is None else GradientEdge(child, at) for child, at in node.next_functions]


def _catch(caught: dict[Node, Gradients], node: Node) -> Callable[[Any], None]:
    def keep(gradients: Gradients) -> None:
        caught[node] = gradients

    return keep


def _enter(
    node: Node, edges: list[GradientEdge], gradients: Gradients, shared: set[Node]
) -> list[tuple[GradientEdge, Tensor]]:
    """The gradients at the `edges` of a node from those that came into it."""
    given = [(GradientEdge(node, at), gradient) for at, gradient in enumerate(gradients) if gradient is not None]
    if not given:
        return []
    if _meets_again(node, {edge.node for edge in edges} & shared):
        # The engine would follow the other way too, whose part is taken at the nodes on that way.
        return _call(node, gradients, edges)
    found = torch.autograd.grad(
        [edge for edge, _ in given], edges, [gradient for _, gradient in given], allow_unused=True
    )
    return [(edge, gradient) for edge, gradient in zip(edges, found, strict=True) if gradient is not None]


def _meets_again(node: Node, ends: set[Node]) -> bool:
    """Whether one of `ends`, which are next to `node`, is also reached from it on a longer way."""
    if not ends:
        return False
    seen: set[Node] = set()
    stack = [child for child, _ in node.next_functions if child is not None]
    while stack:
        for child, _ in stack.pop().next_functions:
            if child is not None and child not in seen:
                if child in ends:
                    return True
                seen.add(child)
                stack.append(child)
    return False


def _call(node: Any, gradients: Gradients, edges: list[GradientEdge]) -> list[tuple[GradientEdge, Tensor]]:
    """The same from the node alone, outside the engine; it makes the gradients of its inputs once more."""
    filled = [
        torch.zeros(each.shape, dtype=each.dtype, device=each.device) if given is None else given
        for given, each in zip(gradients, node._input_metadata, strict=True)
    ]
    found = node(*filled) if callable(node) else node.apply(*filled)
    results = found if isinstance(found, tuple) else (found,)
    wanted = set(edges)
    return [
        (edge, gradient.sum_to_size(edge.node._input_metadata[edge.output_nr].shape))
        for edge, gradient in zip(_edges(node), results, strict=True)
        if gradient is not None and edge in wanted
    ]
