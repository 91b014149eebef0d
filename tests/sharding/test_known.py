"""Plans of the literature as cases: Megatron-LM's, sequence parallelism, data parallelism and sharded weights."""

from __future__ import annotations

import numpy as np
import pytest

from poise.sharding import Graph, Mesh, Plan, backward, cheapest, mesh, propagate, read
from poise.sharding.layers import decoder_layer, feed_forward
from tests.sharding.devices import alone, draw
from tests.sharding.test_plan import exact

B, S, H, N, F = 2, 8, 16, 4, 32
COLUMNS, ROWS = {"w_q", "w_k", "w_v", "w_up", "w_gate"}, {"w_o", "w_down"}
WEIGHTS = COLUMNS | ROWS


def layer(*, batch: int = B, training: bool = False, kv_heads: int = 2) -> Graph:
    graph = decoder_layer(batch, S, H, N, F, kv_heads=kv_heads, itemsize=2)
    if training:
        backward(graph, "y")
    return graph


def megatron(graph: Graph, on: Mesh, **more: str) -> Plan:
    """Annotated at two weights, and `more`."""
    words = {"w_q": "S1", "w_gate": "S1", **more}
    return propagate(graph, on, {name: read(text, graph.shapes[name], on) for name, text in words.items()})


@pytest.mark.parametrize("parts", [2, 4])
def test_two_annotations_give_megatrons_plan(parts: int) -> None:
    """Columns, then rows; one sum behind each of both forward, and one before each of both backward."""
    on = mesh(model=parts)
    plan = megatron(layer(kv_heads=4), on)
    assert {name: plan.kept[name].text(on) for name in WEIGHTS} == {
        name: "S1" if name in COLUMNS else "S0" for name in WEIGHTS
    }
    one = 2 * (parts - 1) * B * S * H * 2
    assert plan.collectives() == {"all-reduce": 2} and plan.bytes == 2 * one
    exact(plan)
    both = megatron(layer(training=True, kv_heads=4), on)
    assert both.collectives() == {"all-reduce": 4} and both.bytes == 4 * one


def test_heads_that_do_not_divide_are_not_split() -> None:
    on = mesh(model=4)
    plan = megatron(layer(kv_heads=2), on)
    assert plan.kept["q_heads"].text(on) == "B" and plan.bytes > 0
    exact(plan)


def test_sequence_parallelism_moves_the_same_bytes() -> None:
    """Split along the sequence between the parts: gathered before, scattered behind (Korthikanti, arXiv 2205.05198)."""
    on = mesh(model=2)
    graph = layer()
    plan = megatron(graph, on, **dict.fromkeys(("x", "r", "y", *COLUMNS), "S1"))
    assert plan.collectives() == {"all-gather": 2, "reduce-scatter": 2}
    assert plan.bytes == megatron(layer(), on).bytes
    assert plan.kept["n1"].text(on) == plan.kept["n2"].text(on) == "S1"
    exact(plan)


def test_data_parallelism_sums_gradients_of_weights() -> None:
    on = mesh(data=2)
    graph = layer(batch=64, training=True)
    plan = propagate(graph, on, {"x": read("S0", graph.shapes["x"], on), "d.y": read("S0", graph.shapes["x"], on)})
    weights = sum(int(np.prod(graph.shapes[name])) for name in graph.given if name.startswith("w_"))
    assert plan.bytes == 2 * (2 - 1) * weights * 2 and set(plan.collectives()) == {"all-reduce"}


def test_sharded_weights_are_gathered_and_gradients_scattered() -> None:
    """FSDP of a feed-forward part whose activations outweigh its weights, which stay gathered for the backward."""
    on = mesh(data=2)
    graph = Graph(2)
    x = graph.input("x", 64, 8, 4)
    feed_forward(graph, x, 8)
    backward(graph, "down", skip=frozenset({"x"}))
    names = [name for name in graph.given if name.startswith("w_")]
    begun = dict.fromkeys(("x", "d.down", *names, *(f"d.{name}.0" for name in names)), "S0")
    plan = propagate(graph, on, {name: read(text, graph.shapes[name], on) for name, text in begun.items()})
    weights = sum(int(np.prod(graph.shapes[name])) for name in names)
    assert plan.collectives() == {"all-gather": 3, "reduce-scatter": 3}
    assert plan.bytes == 2 * (2 - 1) * weights * 2
    assert plan.held(names) == weights * 2 // 2


def test_the_search_finds_megatrons_plan_for_wide_layers() -> None:
    """Weights must be split and activations be whole: columns, then rows, and one sum."""
    on = mesh(model=2)
    graph = Graph(2)
    y = feed_forward(graph, graph.input("x", 2, 4, 8), 64)
    whole = [read("B", graph.shapes["x"], on)]
    split = {
        name: [read(text, graph.shapes[name], on) for text in ("S0", "S1")] for name in ("w_gate", "w_up", "w_down")
    }
    plan = cheapest(graph, on, {"x": whole, y: whole, **split})
    assert [plan.kept[name].text(on) for name in split] == ["S1", "S1", "S0"]
    assert plan.collectives() == {"all-reduce": 1}
    exact(plan)


def test_data_and_tensor_parallelism_on_two_axes() -> None:
    on = mesh(data=2, model=2)
    graph = layer(training=True)
    plan = megatron(graph, on, x="S0 B", **{"d.y": "S0 B", "w_q": "B S1", "w_gate": "B S1"})
    kept = {name: plan.kept[name].text(on) for name in ("q", "w_o", "mixed", "down")}
    assert kept == {"q": "S0 S2", "w_o": "B S0", "mixed": "S0 S2", "down": "S0 B"}
    weights = sum(int(np.prod(graph.shapes[name])) for name in WEIGHTS)
    norms = 2 * H
    reduced = 2 * (2 - 1) * weights * 2 + 2 * 2 * (2 - 1) * norms * 2  # each norm's gradient in both model groups
    assert plan.bytes == reduced + 4 * 2 * (2 - 1) * B * S * H * 2


def test_gradients_of_products_are_exact() -> None:
    """y = (x w) v and a sum with x: gradients of the graph against closed forms."""
    graph = Graph(8)
    x = graph.input("x", 3, 4)
    z = graph.einsum("z", "m k, k n -> m n", x, graph.input("w", 4, 6))
    y = graph.einsum("y", "m k, k n -> m n", z, graph.input("v", 6, 4))
    names = backward(graph, graph.add("out", x, y))
    plan = propagate(graph, mesh(x=2), {})
    values = draw(plan)
    found = alone(plan, values)
    above, w, v = values["d.out"], values["w"], values["v"]
    np.testing.assert_allclose(found[names["x"]], above + above @ v.T @ w.T)
    np.testing.assert_allclose(found[names["w"]], values["x"].T @ above @ v.T)
    np.testing.assert_allclose(found[names["v"]], (values["x"] @ w).T @ above)
    exact(propagate(graph, mesh(x=2), {"w": read("S1", (4, 6), mesh(x=2))}))
