"""Plans: run on devices they give what one device computes, and move the bytes that they say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.sharding import Graph, Mesh, Plan, Signature, cheapest, mesh, propagate, read
from poise.sharding.boxing import box, moved
from poise.sharding.layers import decoder_layer
from poise.sharding.layers import product as matrix_product
from poise.sharding.plan import evaluate
from poise.sharding.rules import rules
from poise.sharding.signature import every
from tests.depth import examples
from tests.sharding.devices import alone, draw, run

MESHES = [mesh(x=2), mesh(x=3), mesh(x=2, y=2), mesh(x=2, y=3)]


def exact(plan: Plan) -> None:
    """A plan on devices against one device."""
    values = draw(plan)
    found, sent = run(plan, values)
    for name, expected in alone(plan, values).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-8, err_msg=name)
    assert sent == plan.bytes


@st.composite
def graphs(draw_: st.DrawFn) -> Graph:
    """Random operations on tensors of three dimensions, each of which reads one that is there."""
    graph = Graph(8)
    table = graph.input("table", 12, 12)
    names = [graph.embedding("e", graph.input("tokens", 6, 12), table), graph.input("x", 6, 12, 12)]
    for at in range(draw_(st.integers(1, 4))):
        one, two = draw_(st.sampled_from(names)), draw_(st.sampled_from(names))
        kind = draw_(st.sampled_from(["linear", "add", "each", "softmax", "norm", "mix", "heads"]))
        name = f"t{at}"
        if kind == "linear":
            graph.einsum(name, "b s h, h f -> b s f", one, graph.input(f"w{at}", 12, 12))
        elif kind == "add":
            graph.add(name, one, two)
        elif kind == "each":
            graph.each(name, one, two)
        elif kind == "softmax":
            graph.softmax(name, one)
        elif kind == "norm":
            graph.norm(name, one, graph.input(f"g{at}", 12))
        elif kind == "mix":
            graph.einsum(name, "b s h, b t h -> b s t", one, two)
        else:
            graph.einsum(f"{name}h", "b s nd -> b n s d", one, n=6)
            graph.einsum(name, "b n s d -> b s nd", f"{name}h")
        names.append(name)
    return graph


@pytest.mark.deep
@settings(max_examples=examples(120))
@given(graphs(), st.sampled_from(MESHES), st.data())
def test_any_annotation_gives_the_same_values(graph: Graph, on: Mesh, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(graph.shapes)), unique=True, max_size=3), "annotated")
    annotated = {name: data.draw(st.sampled_from(every(graph.shapes[name], on)), name) for name in names}
    plan = propagate(graph, on, annotated)
    exact(plan)
    assert all(plan.kept[name] == each for name, each in annotated.items())


@pytest.mark.deep
@settings(max_examples=examples(80))
@given(graphs(), st.sampled_from(MESHES[:2]))
def test_the_cheapest_signatures_give_the_same_values(graph: Graph, on: Mesh) -> None:
    """With work priced, so that not all is done everywhere; what is propagated from the same start is no cheaper."""
    plan = cheapest(graph, on, {}, work=1.0)
    exact(plan)
    other = propagate(graph, on, {name: plan.kept[name] for name in graph.given})
    assert plan.bytes + plan.work <= other.bytes + other.work


def _chain(on: Mesh) -> tuple[Graph, dict[str, list[Signature]]]:
    graph = Graph(1)
    x = graph.input("x", 4, 6)
    for at, width in enumerate((8, 4, 6)):
        x = graph.einsum(f"y{at}", "m k, k n -> m n", x, graph.input(f"w{at}", graph.shapes[x][1], width))
    splits = {f"w{at}": [each for each in every(graph.shapes[f"w{at}"], on) if each.ways(on) > 1] for at in range(3)}
    ends = {"x": [read("S0", (4, 6), on)], "y2": [read("B", (4, 6), on), read("S1", (4, 6), on)]}
    return graph, {**splits, **ends}


def test_a_chains_cheapest_signatures_are_those_of_all_combinations() -> None:
    on = mesh(x=2)
    graph, allowed = _chain(on)
    best = None
    for chosen in product(*(rules(op, on) for op in graph.ops)):
        for given_ in product(*(allowed[name] for name in graph.given)):
            for end in allowed["y2"]:
                at = {op.output: rule for op, rule in zip(graph.ops, chosen, strict=True)}
                plan = evaluate(graph, on, dict(zip(graph.given, given_, strict=True)), at, {"y2": end})
                best = plan.bytes if best is None else min(best, plan.bytes)
    found = cheapest(graph, on, allowed)
    assert found.bytes == best and best > 0
    exact(found)


def test_a_chains_cost_is_that_of_its_own_recursion() -> None:
    """The sum of boxing along the way, by a table over the signature behind each operation."""
    on = mesh(x=2)
    graph, allowed = _chain(on)
    costs = dict.fromkeys(allowed["x"], 0)
    for op in graph.ops:
        behind: dict[Signature, int] = {}
        x, w = op.inputs
        for before, spent in costs.items():
            for rule in rules(op, on):
                step = moved(box(graph.shapes[x], before, rule.inputs[0], on))
                step += min(moved(box(graph.shapes[w], each, rule.inputs[1], on)) for each in allowed[w])
                behind[rule.output] = min(spent + step, behind.get(rule.output, spent + step))
        costs = behind
    ends = [spent + moved(box((4, 6), made, end, on)) for made, spent in costs.items() for end in allowed["y2"]]
    assert cheapest(graph, on, allowed).bytes == min(ends)


def test_a_matrix_product_on_two_and_three_axes() -> None:
    """SUMMA's and Agarwal's products as signatures: exact, with (q − 1)(|A| + |B|) and 3 (l − 1) n² entries sent."""
    n, two, three = 12, mesh(x=2, y=2), mesh(i=2, j=2, k=2)
    graph = matrix_product(n, n, n, itemsize=1)
    flat = cheapest(graph, two, {name: [read("S0 S1", (n, n), two)] for name in "abc"})
    assert flat.bytes <= 2 * n * n
    exact(flat)
    a = Signature((("i", "j"), ("k",)))
    b = Signature((("k",), ("j", "i")))
    c = Signature((("i",), ("j", "k")))
    cube = cheapest(graph, three, {"a": [a], "b": [b], "c": [c]})
    assert cube.bytes <= 3 * n * n
    exact(cube)


def test_a_graph_of_too_many_combinations_is_refused() -> None:
    graph, on = decoder_layer(2, 4, 8, 2, 16), mesh(model=2)
    with pytest.raises(UserError, match="over 20 combinations of signatures; allow fewer"):
        cheapest(graph, on, {}, limit=20)


def test_what_does_not_belong_to_the_graph_is_refused() -> None:
    graph, on = decoder_layer(2, 4, 8, 2, 16), mesh(model=2)
    with pytest.raises(UserError, match="w_z: the graph has no such tensor"):
        propagate(graph, on, {"w_z": read("B", (8, 8), on)})
    with pytest.raises(UserError, match="x: two tensors of the graph have this name"):
        graph.input("x", 2)
    with pytest.raises(UserError, match=r"b nd -> b n d: the size of n is not known; give n="):
        Graph(1, {"q": (2, 8)}).einsum("r", "b nd -> b n d", "q")
    with pytest.raises(UserError, match=r"m k, k n -> m n: w is \[5, 2\], not \[4, 2\]"):
        Graph(1, {"q": (3, 4), "w": (5, 2)}).einsum("r", "m k, k n -> m n", "q", "w")
