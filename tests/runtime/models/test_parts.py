"""Attention within documents and windows, rotary positions, and experts, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from poise.runtime.models.attention import attend
from poise.runtime.models.experts import Mixture, choose
from poise.runtime.models.rope import amplitude, angles, frequencies, rotate
from poise.runtime.models.shape import Experts, Rope
from tests.runtime.models.configs import CONFIGS
from tests.runtime.models.truth import LENGTH, made


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", CONFIGS)
def test_packed_documents_are_each_alone(name: str) -> None:
    """Logits and gradients of a row of three documents are those of three rows."""
    lengths = (9, 1, 14)
    tokens = torch.randint(64, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    shared = {
        "positions": torch.cat([torch.arange(each) for each in lengths])[None],
        "documents": torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))[None],
    }
    packed, apart = made(CONFIGS[name], 1).parts[0], made(CONFIGS[name], 1).parts[0]
    found = packed(tokens, **shared)
    expected = torch.cat([apart(each) for each in tokens.split(lengths, 1)], 1)
    assert float((found - expected).detach().abs().max()) < 1e-12
    found.square().sum().backward()
    expected.square().sum().backward()
    for (_, one), (_, two) in zip(packed.named_parameters(), apart.named_parameters(), strict=True):
        assert one.grad is not None and two.grad is not None
        assert float((one.grad - two.grad).abs().max()) < 1e-9


@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 3), st.integers(0, 100))
def test_attention_is_a_weighted_mean_of_what_a_token_sees(length: int, window: int, cuts: int, seed: int) -> None:
    q, k, v = drawn(1, 4, length, 8, seed=seed), drawn(1, 2, length, 8, seed=seed + 1), drawn(1, 2, length, 6, seed=7)
    documents = torch.sort(torch.randint(cuts + 1, (1, length), generator=torch.Generator().manual_seed(seed))).values
    found = attend(q, k, v, documents, window=window, scale=0.3)
    for at in range(length):
        seen = [
            other for other in range(at + 1)
            if at - other < window and documents[0, at] == documents[0, other]
        ]  # fmt: skip
        for head in range(4):
            scores = torch.stack([(q[0, head, at] * k[0, head // 2, other]).sum() * 0.3 for other in seen])
            mean = (scores.softmax(0)[:, None] * v[0, head // 2, seen]).sum(0)
            assert torch.allclose(found[0, at, 6 * head : 6 * head + 6], mean, atol=1e-12)


@given(st.integers(0, 1000), st.integers(0, 500), st.booleans())
def test_scores_of_rotated_heads_depend_on_distance_alone(at: int, by: int, paired: bool) -> None:
    turns = torch.tensor(frequencies(Rope(), 8), dtype=torch.float64)

    def score(one: int, two: int) -> Tensor:
        q, k = drawn(1, 1, 1, 8), drawn(1, 1, 1, 8, seed=2)
        turned = [
            rotate(x, *angles(torch.tensor([[place]]), turns, 1.0, x), paired=paired)
            for x, place in ((q, one), (k, two))
        ]
        return (turned[0] * turned[1]).sum()

    assert score(at, at + by).item() == pytest.approx(score(0, by).item(), abs=1e-9)


def test_frequencies_of_stretched_contexts() -> None:
    plain = frequencies(Rope(100.0), 8)
    assert plain == pytest.approx([100 ** (-pair / 4) for pair in range(4)])
    assert frequencies(Rope(100.0, "linear", 4.0), 8) == pytest.approx([each / 4 for each in plain])
    llama = frequencies(Rope(1e6, "llama3", 8.0, 64, 1.0, 4.0), 16)
    base = frequencies(Rope(1e6), 16)
    for one, two in zip(llama, base, strict=True):
        wave = 2 * math.pi / two
        if wave < 64 / 4:
            assert one == two
        elif wave > 64:
            assert one == pytest.approx(two / 8)
        else:
            assert two / 8 < one < two
    yarn = frequencies(Rope(1e4, "yarn", 4.0, 4096), 64)
    base = frequencies(Rope(1e4), 64)
    assert yarn[0] == base[0] and yarn[-1] == pytest.approx(base[-1] / 4)
    assert amplitude(Rope(kind="yarn", factor=4.0)) == pytest.approx(0.1 * math.log(4) + 1)
    assert amplitude(Rope(kind="yarn", factor=4.0, mscale=0.7, mscale_all=0.7)) == 1.0


@pytest.mark.parametrize("naming", ["mixtral", "qwen", "deepseek"])
def test_a_mixture_is_the_weighted_sum_of_its_experts(naming: str) -> None:
    of = Experts(naming, 6, 2, 8, shared=0 if naming == "mixtral" else 10, normalised=naming != "deepseek", scale=2.5)
    mixture = Mixture(4, of).double()
    x = drawn(2, 5, 4)
    weights, numbers = choose(mixture.gate(x.flatten(0, 1)), of)
    dense = torch.zeros(10, 6, dtype=torch.float64).scatter(1, numbers, weights)
    expected = sum(dense[:, at, None] * expert(x.flatten(0, 1)) for at, expert in enumerate(mixture.experts))
    if naming == "qwen":
        expected = expected + mixture.shared_expert_gate(x.flatten(0, 1)).sigmoid() * mixture.shared_expert(
            x.flatten(0, 1)
        )
    if naming == "deepseek":
        expected = expected + mixture.shared_experts(x.flatten(0, 1))
    assert torch.allclose(mixture(x), expected.view(2, 5, 4), atol=1e-12)  # type: ignore[union-attr]
    mixture(x[:1, :1]).sum().backward()
    assert all(weight.grad is not None for weight in mixture.parameters())


def test_groups_leave_experts_of_other_groups_out() -> None:
    of = Experts("deepseek", 6, 2, 8, normalised=False, groups=3, kept=1)
    logits = torch.tensor([[5.0, 0.0, 4.0, 4.0, 1.0, 1.0]], dtype=torch.float64)
    weights, numbers = choose(logits, of)
    assert numbers.tolist() == [[0, 1]] and torch.equal(weights, logits.softmax(-1)[:, :2])
    assert choose(logits, Experts("deepseek", 6, 2, 8, groups=3, kept=2))[1].sort().values.tolist()[0][0] == 0
