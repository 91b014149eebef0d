"""Redco's rules: matrices really split, what they send counted, and no other choice that sends less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from poise.catalogue import device, model
from poise.cost.training import Job
from poise.plan.training.split_rules import INPUTS, OUTPUTS, Block, blocks, cheapest, choices, moved, rule, ways

Parts = list[NDArray[np.float64]]
sizes = st.integers(1, 4)


class Devices:
    """Arrays on several devices, with the values that each sends in its collectives."""

    def __init__(self, ranks: int) -> None:
        self.ranks, self.sent = ranks, 0.0

    def gather(self, parts: Parts) -> Parts:
        whole = np.concatenate(parts, axis=1)
        self.sent += (self.ranks - 1) / self.ranks * whole.shape[1]
        return [whole] * self.ranks

    def scatter(self, sums: Parts) -> Parts:
        self.sent += (self.ranks - 1) / self.ranks * sums[0].shape[1]
        return np.split(np.sum(sums, axis=0), self.ranks, axis=1)

    def first(self, rows: NDArray[np.float64], matrix: NDArray[np.float64], split: int, wanted: int) -> Parts:
        """A product of copied rows, split by columns where the last matrix wants its inputs split, else copied."""
        if split == OUTPUTS:
            parts = [rows @ each for each in np.split(matrix, self.ranks, axis=1)]
        else:
            pairs = zip(np.split(rows, self.ranks, axis=1), np.split(matrix, self.ranks, axis=0), strict=True)
            parts = self.scatter([some @ each for some, each in pairs])
        return parts if wanted == INPUTS else self.gather(parts)

    def last(self, parts: Parts, matrix: NDArray[np.float64], split: int) -> Parts:
        if split == OUTPUTS:
            pieces = np.split(matrix, self.ranks, axis=1)
            return self.gather([each @ piece for each, piece in zip(parts, pieces, strict=True)])
        pieces = np.split(matrix, self.ranks, axis=0)
        return self.gather(self.scatter([each @ piece for each, piece in zip(parts, pieces, strict=True)]))


@given(st.sampled_from([1, 2, 4]), sizes, sizes, st.integers(1, 3))
def test_every_choice_gives_the_product_and_sends_what_is_counted(p: int, width: int, inner: int, n: int) -> None:
    block, rng = Block(width * p, (inner * p,) * n), np.random.default_rng(0)
    rows = rng.standard_normal((3, block.width))
    matrices = [rng.standard_normal((block.width, each)) for each in block.inner]
    back = rng.standard_normal((block.inner[0], block.width))
    expected = np.prod([rows @ each for each in matrices], axis=0) @ back
    for splits in choices(block):
        devices = Devices(p)
        products = [devices.first(rows, *each, splits[-1]) for each in zip(matrices, splits[:-1], strict=True)]
        met = [np.prod(each, axis=0) for each in zip(*products, strict=True)]
        for found in devices.last(met, back, splits[-1]):
            np.testing.assert_allclose(found, expected, atol=1e-9)
        assert moved(block, splits, p) == pytest.approx(devices.sent)


@given(st.integers(2, 16), st.integers(1, 64), st.lists(st.integers(1, 64), min_size=1, max_size=3))
def test_the_rules_send_one_all_reduce_of_the_rows_and_nothing_sends_less_than_half(
    p: int, width: int, inner: list[int]
) -> None:
    block = Block(width, tuple(inner))
    assert moved(block, rule(block), p) == pytest.approx(2 * (p - 1) / p * width)
    assert min(moved(block, each, p) for each in choices(block)) >= (p - 1) / p * width


def test_a_gated_block_has_three_matrices_and_attention_four() -> None:
    assert [len(rule(each)) for each in blocks(model("llama-2-7b"))] == [4, 3]
    assert cheapest(model("llama-2-7b"), 8).rules == pytest.approx(4 * 7 / 8 * 4096)


def test_no_way_is_faster_than_the_best() -> None:
    found = ways(Job(model("gpt-j-6b"), device("A100-SXM-40GB"), 4, 1024, 8))
    assert 0 < found.best <= min(found.rules, found.fsdp)
