"""Modifiers leave what they do not concern, compose in order, and reach every place of a tree once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, predict
from poise.plan.training.modifiers import (
    LIGHTEST,
    Chain,
    Mesh,
    Quantized,
    Remat,
    Setup,
    by_device,
    compared,
    everywhere,
)


@dataclass(frozen=True)
class Node:
    """A tree: what a module has, by several kinds of containers."""

    width: int
    parts: tuple[Node, ...] = ()
    named: dict[str, Node] | None = None


nodes = st.recursive(
    st.builds(Node, st.integers(0, 9)),
    lambda inner: st.builds(
        Node, st.integers(0, 9), st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=2), inner)
    ),
)


def widths(node: Node) -> list[int]:
    return [node.width, *(w for each in [*node.parts, *(node.named or {}).values()] for w in widths(each))]


def a_job(devices: int = 16, name: str = "H100", shape: str = "llama-2-7b") -> Job:
    return Job(model(shape), replace(device(name), scaleout_bw=50e9), devices, 4096, 64)


@given(nodes)
def test_one_change_reaches_every_module_of_a_tree_once(tree: Node) -> None:
    before = widths(tree)
    changed = everywhere(tree, Node, lambda node: replace(node, width=node.width + 1))
    assert widths(changed) == [each + 1 for each in before]
    assert widths(tree) == before and everywhere(tree, Node, lambda node: node) == tree


def test_a_setup_is_such_a_tree() -> None:
    setup = Setup(a_job(), Layout(data=16))
    longer = everywhere(setup, Job, lambda job: replace(job, sequence=8192))
    assert longer == Setup(replace(setup.job, sequence=8192), setup.layout)


@given(st.permutations([Mesh(tensor=2), Remat("full"), Quantized("fp8")]))
def test_modifiers_of_different_parts_commute(order: list[Mesh | Remat | Quantized]) -> None:
    setup = Setup(a_job(), Layout(data=16))
    found = Chain(tuple(order))(setup)
    assert (found.layout.data, found.layout.tensor, found.layout.recompute) == (8, 2, "full")
    assert found.job == replace(setup.job, precision="fp8") and setup.layout == Layout(data=16)


def test_the_least_recomputation_that_fits_is_taken() -> None:
    setup = Mesh()(Setup(a_job(), Layout()))
    taken = LIGHTEST(setup)
    for each in LIGHTEST.modifiers:
        if each(setup) == taken:
            break
        assert not predict(*each(setup)).safe(setup.job)
    assert predict(*taken).safe(setup.job)


def test_rules_go_by_the_device() -> None:
    assert by_device(a_job(name="A100")).layout.tensor == 8
    assert by_device(a_job()).layout.zero == 3 and by_device(a_job(name="B200")).job.precision == "mxfp8"
    with pytest.raises(ScenarioError, match="no rule's pattern matches it; add one with the pattern"):
        by_device(a_job(), rules=[("TPU-*", Mesh())])
    with pytest.raises(ScenarioError, match="mesh of 3 ranks does not divide 16 devices"):
        Mesh(tensor=3)(Setup(a_job(), Layout()))


def test_a_comparison_is_of_one_job() -> None:
    found = compared(a_job())
    assert found.mfu == pytest.approx(predict(*by_device(a_job())).mfu) and found.rules > 0 < found.best
