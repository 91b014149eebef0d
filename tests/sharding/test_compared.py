"""Tensor parallelism of several dimensions and plans by hand, against closed forms, and run on devices."""

from __future__ import annotations

import numpy as np
import pytest

from poise.core.errors import UserError
from poise.sharding import Graph, backward, mesh, propagate, read
from poise.sharding.compared import annotated_layer, ways
from poise.sharding.dimensions import KEPT, devices_of, plan, step
from poise.sharding.layers import feed_forward
from tests.sharding.devices import alone, draw, run

TOKENS, HIDDEN = 4096, 1024


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_plans_by_hand_move_what_their_formulas_say(devices: int) -> None:
    """Sums of gradients, or of activations: propagated from annotations of data, or of one weight."""
    for tokens in (64, 2 * HIDDEN, 4 * HIDDEN, 64 * HIDDEN):
        graph, on = Graph(2), mesh(x=devices)
        x, words = graph.input("x", 1, tokens, HIDDEN), {"x": "S1", "d.down": "S1"}
        backward(graph, feed_forward(graph, x, 4 * HIDDEN, gated=False))
        data = propagate(graph, on, {name: read(text, graph.shapes[name], on) for name, text in words.items()})
        tensor = propagate(graph, on, {"w_up": read("S1", (HIDDEN, 4 * HIDDEN), on)})
        found = ways(devices, tokens, HIDDEN)
        assert found.tensor == tensor.bytes or tokens > 4 * HIDDEN  # and many than activations
        assert found.data == data.bytes or tokens <= 4 * HIDDEN  # few tokens are cheaper to exchange than weights
        assert found.cheapest == (found.data if tokens >= 4 * HIDDEN else found.tensor)


@pytest.mark.parametrize("side", [4, 8])
def test_two_dimensions_send_in_proportion_to_the_rows_and_columns(side: int) -> None:
    """(q − 1) / q² of the matrices that are gathered or scattered in each of six products (SUMMA)."""
    one, other = step("2d", side**2, TOKENS, HIDDEN), step("2d", 16 * side**2, TOKENS, HIDDEN)
    assert one.sent / other.sent == pytest.approx((side - 1) / side**2 * (4 * side) ** 2 / (4 * side - 1))
    assert step("1d", side**2, TOKENS, HIDDEN).sent == pytest.approx(4 * (1 - side**-2) * TOKENS * HIDDEN * 2)


@pytest.mark.parametrize(("kind", "devices"), [("1d", 4), ("2d", 4), ("2.5d", 8), ("3d", 8)])
def test_each_kind_is_exact(kind: str, devices: int) -> None:
    """The forward pass on devices against one; what a device holds is its part of all weights."""
    made = plan(kind, devices, 8, 8)
    forward = [op for op in made.graph.ops if op.output in KEPT[kind] or op.output == "act"]
    made.graph.ops[:] = forward
    made.moves = [each for each in made.moves if each[1] in {op.output for op in forward}]
    values = draw(made)
    found, _ = run(made, values)
    for name, expected in alone(made, values).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-8, err_msg=name)
    copies = 2 if kind == "2.5d" else 1
    assert step(kind, devices, 8, 8).weights == 8 * 8**2 * 2 * copies // devices


def test_an_annotated_layer_is_megatrons_where_heads_divide() -> None:
    layer = annotated_layer(4)
    assert (layer.split, layer.sums, layer.others) == (7, 4, 0)
    assert annotated_layer(8, kv_heads=4).split < 7


@pytest.mark.parametrize(("kind", "devices", "cure"), [("2d", 8, "give 4, or 1d"), ("4d", 8, "give 1d, 2d, 2.5d, 3d")])
def test_devices_that_are_no_such_mesh_are_refused(kind: str, devices: int, cure: str) -> None:
    with pytest.raises(UserError, match=cure):
        devices_of(kind, devices)
