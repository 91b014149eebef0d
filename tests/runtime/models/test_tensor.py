"""Layers that ranks share: gradients of one process, the parts that signatures propagate to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from poise.core.errors import UserError
from poise.pipeline import make, names
from poise.runtime import Pipeline
from poise.runtime.decoder import cross_entropy
from poise.runtime.job_check import check_shared
from poise.runtime.models import build
from poise.runtime.models.cut import Cut, cut
from poise.runtime.models.part import Part, materialise, share
from poise.runtime.models.read import read
from poise.runtime.norm import norms
from poise.runtime.tensor import TensorPeers
from poise.sharding import Signature, mesh, propagate
from poise.sharding.layers import decoder_layer
from tests.runtime.models.configs import CONFIGS
from tests.runtime.models.truth import LENGTH, MICROBATCHES, alone, batch
from tests.runtime.pool import Pool

LATENT = {**CONFIGS["deepseek_v2_lite"], "q_lora_rank": 12}
FAST = [
    ("llama, tied, biases, llama3", "zb_h1"), ("qwen3_moe", "one_f_one_b"), ("deepseek_v2_lite", "zb_v"),
    ("gpt2", "gpipe"), ("qwen2_moe", "zb_h1"), ("mixtral", "one_f_one_b"), ("qwen3", "zb_h1"),
]  # fmt: skip
FLUSHED = [
    name for name in names()
    if (plan := make(name, 2, MICROBATCHES)).updates == "flush" and not plan.barriers
]  # fmt: skip
"""Vocabulary passes are run with the built-in decoder alone."""


def shared(config: dict[str, Any], stages: int, beside: TensorPeers) -> Cut:
    """As `made`, with this rank's part of every layer."""
    with torch.device("meta"):
        model = build(read(config))
    found = cut(model, stages, LENGTH)
    for part in found.parts:
        share(part, beside)
        materialise(part, seed=3, std=model.std, dtype=torch.float64)
    return found


def peers() -> tuple[Any, TensorPeers]:
    """Ranks 0 and 2 are a pipeline, 1 and 3 another; 0 and 1 share a stage, 2 and 3 the other."""
    rank = dist.get_rank()
    across = dist.new_group([rank % 2, rank % 2 + 2], use_local_synchronization=True)
    return across, TensorPeers(dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True))


def part_of(weight: Any, whole: Tensor) -> Tensor:
    """What a rank has of a gradient of the whole."""
    return weight.part_from(whole).detach() if hasattr(weight, "part_from") else whole


def worst(part: Part, gradients: dict[str, Tensor]) -> tuple[float, set[str]]:
    """The largest difference of a gradient from that of one process, and the weights looked at."""
    found, seen = 0.0, set()
    for local, weight in part.named_parameters():
        assert weight.grad is not None, local
        found = max(found, float((weight.grad - part_of(weight, gradients[part.names[local]])).abs().max()))
        seen.add(part.names[local])
    return found, seen


def _piped(config: dict[str, Any], schedule: str, recompute: bool, gradients: dict[str, Tensor]) -> Any:
    across, beside = peers()
    plan = make(schedule, 2, MICROBATCHES)
    found = shared(config, plan.stages, beside)
    for part in found.parts:
        part.recompute = recompute
    pipeline = Pipeline(plan, found.parts, cross_entropy, group=across, ties=found.ties)
    tokens, target, more = batch()
    outcome = pipeline.step(tokens, target, shared=more)
    results = [worst(stage.module, gradients) for stage in pipeline.stages.values()]  # type: ignore[arg-type]
    measured = norms(pipeline, beside, pipeline.ties.repeated)
    return sum(pipeline.losses(outcome)) / MICROBATCHES, results, measured


def check(pool: Pool, config: dict[str, Any], schedule: str, *, recompute: bool = False) -> None:
    loss, gradients = alone(config)
    flat = torch.cat([each.flatten() for each in gradients.values()])
    seen: set[str] = set()
    for found, stages, measured in pool.run(_piped, config, schedule, recompute, gradients):
        assert found == pytest.approx(loss, abs=1e-10)
        assert measured == pytest.approx((flat.norm().item(), flat.abs().sum().item()), rel=1e-10)
        for difference, weights in stages:
            assert difference < 1e-10
            seen |= weights
    assert seen == set(gradients)


@pytest.mark.parametrize(("name", "schedule"), FAST)
def test_two_ranks_a_stage_have_the_gradients_of_one_process(pool: Pool, name: str, schedule: str) -> None:
    check(pool, CONFIGS[name], schedule)


def test_compressed_queries_and_recomputation(pool: Pool) -> None:
    check(pool, LATENT, "zb_h1", recompute=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_is_shared(pool: Pool, name: str) -> None:
    check(pool, CONFIGS[name], "zb_h1")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", FLUSHED)
def test_every_schedule_has_shared_stages(pool: Pool, schedule: str) -> None:
    check(pool, {**CONFIGS["qwen3"], "num_hidden_layers": 8}, schedule)


def _sharded(config: dict[str, Any], gradients: dict[str, Tensor]) -> float:
    """Two ranks share each layer, and two such pairs have each half of the batch and of all weights (FSDP2)."""
    side, beside = peers()
    part = shared(config, 1, beside).parts[0]
    takes = {local: getattr(weight, "part_from", Tensor.detach) for local, weight in part.named_parameters()}
    fully_shard(part, mesh=DeviceMesh.from_group(side, "cpu"))
    pipeline = Pipeline(make("one_f_one_b", 1, MICROBATCHES // 2), [part], cross_entropy, group=_itself())
    half = dist.get_rank() // 2
    tokens, target, more = batch()
    cut_ = {name: each.chunk(2)[half] for name, each in more.items()}
    pipeline.step(tokens.chunk(2)[half], target.chunk(2)[half], shared=cut_)
    found = 0.0
    for local, weight in part.named_parameters():
        whole = takes[local](gradients[part.names[local]]).detach()
        found = max(found, float((weight.grad.full_tensor() - whole).abs().max()))  # type: ignore[union-attr]
    return found


def _itself() -> Any:
    return dist.new_group([dist.get_rank()], use_local_synchronization=True)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_shared_layers_with_sharded_weights(pool: Pool, name: str) -> None:
    _, gradients = alone(CONFIGS[name])
    assert max(pool.run(_sharded, CONFIGS[name], gradients)) < 1e-10


class Alone(TensorPeers):
    """The first of two ranks, without a group."""

    part, parts = 0, 2  # type: ignore[assignment]

    def __init__(self) -> None:
        object.__setattr__(self, "group", None)


PLACES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj"}


def test_the_parts_are_those_that_signatures_propagate_to() -> None:
    """Two annotated weights of the same layer: what is split there by columns is cut along outputs here."""
    config = CONFIGS["llama"]
    on = mesh(model=2)
    graph = decoder_layer(1, LENGTH, 32, 4, 48, kv_heads=2)
    columns = Signature(((), ("model",)))
    plan = propagate(graph, on, {"w_q": columns, "w_gate": columns})
    with torch.device("meta"):
        model = build(read(config))
    part = cut(model, 1, LENGTH).parts[0]
    share(part, Alone())
    weights = {part.names[local]: weight for local, weight in part.named_parameters()}
    for short, name in {**PLACES, "down": "down_proj"}.items():
        place = "mlp" if short in ("gate", "up", "down") else "self_attn"
        weight = weights[f"model.layers.0.{place}.{name}.weight"]
        assert plan.kept[f"w_{short}"].local(graph.shapes[f"w_{short}"], on) == tuple(weight.shape)[::-1], name


@pytest.mark.parametrize(
    ("name", "parts", "change", "error"),
    [
        ("llama", 4, {}, "--tensor 4: num_key_value_heads is 2 and does not divide into so many parts"),
        ("llama", 2, {"intermediate_size": 47}, "--tensor 2: intermediate_size is 47"),
        ("qwen2_moe", 2, {"moe_intermediate_size": 15}, "--tensor 2: the experts' inner width is 15"),
        ("qwen2_moe", 2, {"shared_expert_intermediate_size": 23}, "--tensor 2: the shared expert's width is 23"),
        (
            "gpt2",
            2,
            {"attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
            "--tensor 2: dropout of 0.1 would differ",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(name: str, parts: int, change: dict[str, Any], error: str) -> None:
    with pytest.raises(UserError, match=error):
        check_shared(read({**CONFIGS[name], **change}), parts)
