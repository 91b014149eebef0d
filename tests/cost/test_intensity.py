"""Intensities as published, and times that follow from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import UserError
from poise.core.model import Model
from poise.cost.intensity import decode_attention, decode_intensity, decode_s, expert_intensity, expert_knee, ridge
from tests.cost.pools import DEEPSEEK_V3, LLAMA_8B, models

MHA = replace(LLAMA_8B, heads=32, kv_heads=32)
GQA = replace(LLAMA_8B, heads=128, kv_heads=8)


def test_the_published_intensities() -> None:
    """About 1, about 16, 100 to 200 and at most 242, and 512 operations per byte (sections 3.1 and 3.2)."""
    assert decode_intensity(MHA) == 1.0
    assert decode_intensity(GQA) == 16.0
    assert decode_attention(DEEPSEEK_V3) == (278_528.0, 1152.0)
    assert decode_intensity(DEEPSEEK_V3) == pytest.approx(241.8, abs=0.1)
    assert decode_intensity(DEEPSEEK_V3, "expanded") == pytest.approx(512, rel=0.02)


def test_expanded_latents_make_decoding_a_hundred_times_slower() -> None:
    """103 times in the paper, with what is not attention; 121 of attention alone where arithmetic binds both."""
    operations = [decode_attention(DEEPSEEK_V3, path)[0] for path in ("expanded", "absorbed")]  # type: ignore[arg-type]
    assert operations[0] / operations[1] == pytest.approx(103, rel=0.2)


def test_b200_has_its_ridge_where_published() -> None:
    b200 = replace(device("B200"), bf16_flops=2250e12, memory_bw=8e12)
    assert ridge(b200) == pytest.approx(281, abs=0.5)
    assert expert_knee(DEEPSEEK_V3, b200) == pytest.approx(281.25 * 256 / 8)
    assert decode_intensity(MHA) < decode_intensity(GQA) < decode_intensity(DEEPSEEK_V3) < ridge(b200)


@given(models())
def test_time_is_bytes_until_the_ridge(model: Model) -> None:
    h100 = device("H100")
    operations, read = decode_attention(model)
    found = decode_s(model, h100, 1000)
    assert found >= 1000 * read / h100.memory_bw * (1 - 1e-12)
    if decode_intensity(model) <= ridge(h100):
        assert found == pytest.approx(1000 * read / h100.memory_bw)
    else:
        assert found == pytest.approx(1000 * operations / h100.bf16_flops)


@given(models(), st.integers(1, 10_000))
def test_experts_gain_with_tokens(model: Model, tokens: int) -> None:
    if model.moe is None:
        with pytest.raises(UserError, match="has no experts"):
            expert_intensity(model, tokens)
        return
    assert expert_intensity(model, 2 * tokens) == pytest.approx(2 * expert_intensity(model, tokens))
    knee = expert_knee(model, device("H100"))
    assert expert_intensity(model, knee) == pytest.approx(ridge(device("H100")))


def test_only_latents_expand() -> None:
    with pytest.raises(UserError, match="has no latents to expand"):
        decode_attention(MHA, "expanded")
