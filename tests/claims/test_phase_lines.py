"""The artefact's lines as step costs, against the formulas that they are of."""

from __future__ import annotations

import pytest

from poise.claims.phase_lines import DISTSERVE, VLLM, PhaseLines, profiled
from poise.claims.systems.distserve import OPT_13B
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Device, Pool

DEVICE = Device("A100", "NVIDIA", bf16_flops=312e12, memory_bytes=85_899_345_920, memory_bw=2e12, host_bw=32e9)


def ms(pool: Pool, shape: StepShape, kv: int = 0) -> float:
    piece = PhaseLines(DISTSERVE).build(pool).step(shape)
    return (piece.base + piece.per_kv * kv) / 1e9


def test_prompts_and_decodes_have_lines_of_their_own() -> None:
    pool = Pool(OPT_13B, DEVICE)
    two = StepShape(0, (Chunk(500, 0), Chunk(300, 0)))
    assert ms(pool, two) == pytest.approx(18.103 + 0.10191 * 800 + 7.1223e-6 * (500**2 + 300**2))
    assert ms(pool, StepShape(10), 5000) == pytest.approx(19.935 + 6.2694e-4 * 5000 + 0.038507 * 10, rel=1e-6)
    assert ms(pool, StepShape(95), 5000) == pytest.approx(7.1662 + 5.7980e-4 * 5000 + 0.15831 * 95, rel=1e-6)


def test_a_token_that_follows_kv_from_elsewhere_is_a_decode() -> None:
    pool = Pool(OPT_13B, DEVICE)
    joined = ms(pool, StepShape(9, (Chunk(1, 499),)), 4500)
    assert joined == pytest.approx(ms(pool, StepShape(10), 5000), rel=1e-6)


def test_stages_share_a_step() -> None:
    """A microbatch has half of two equal prompts; each of the two stages takes 2 ms longer."""
    pool = Pool(OPT_13B, DEVICE, pipeline=2)
    one = 18.103 + 0.10191 * 400 + 7.1223e-6 * 400**2
    assert ms(pool, StepShape(0, (Chunk(400, 0),) * 2)) == pytest.approx(one + 4, rel=1e-6)
    assert ms(pool, StepShape(20), 8000) == pytest.approx(19.935 + 6.2694e-4 * 4000 + 0.38507, rel=1e-6)


def test_lines_as_profiled() -> None:
    own, theirs = (profiled(table, name)["OPT-13B"][1] for table, name in ((DISTSERVE, "DistServe"), (VLLM, "vLLM")))
    assert own.prompts[0] == pytest.approx(16.457, rel=1e-3) and own.few == DISTSERVE["OPT-13B"][1].few
    assert theirs.prompts[0] == pytest.approx(15.752, rel=1e-3) and theirs.few[0] == pytest.approx(19.563, rel=1e-3)


def test_ranks_without_lines() -> None:
    with pytest.raises(ScenarioError, match=r"OPT-13B in 8 tensor ranks has no lines; give ranks of \[1, 2, 4\]"):
        PhaseLines(DISTSERVE).build(Pool(OPT_13B, DEVICE, tensor=8))
