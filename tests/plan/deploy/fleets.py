"""Fleets and settings as Hypothesis draws them: all layouts, roles and formats that fit a device."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.spec import Engine, Format, Pool
from poise.plan.deploy import Setting
from poise.plan.fleet import Fleet
from poise.plan.unit import computes, lacks, layouts

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "llama-3.1-70b", "gpt-oss-20b")
DEVICES = ("H100", "A100", "L40S", "MI300X", "GB200", "A40", "TPU-v5p")
FORMATS: tuple[Format, ...] = ("bf16", "fp8", "int8", "int4", "fp4")
WORKLOAD = {"poisson": {"rate": 2.0, "requests": 12, "prompt_tokens": 200, "output_tokens": 20}}
CHECKPOINTS = {form: f"/models/it's {form} $(exit 3)" for form in ("int8", "int4", "fp4")}

KINDS = [
    made
    for each in MODELS
    for kind in DEVICES
    for weights in FORMATS
    if computes(device(kind), weights)
    for layout in layouts(model(each), device(kind), 16)
    if not lacks(made := Pool(model(each), device(kind), weights=weights, **layout), 300)
]
"""Every replica of these models and devices that has room."""


def a_pool(of: str = "llama-3.1-8b", kind: str = "H100", **given: object) -> Pool:
    return Pool(model(of), device(kind), **given)  # type: ignore[arg-type]


def a_setting(**given: object) -> Setting:
    return Setting(**{"workload": WORKLOAD, **given})  # type: ignore[arg-type]


engines = st.builds(
    Engine,
    name=st.sampled_from(["vllm", "SGLang"]),
    token_budget=st.sampled_from([2048, 8192]),
    max_sequences=st.sampled_from([64, 256, 1000]),
    block_tokens=st.sampled_from([16, 64]),
    prefix_caching=st.booleans(),
    memory_fraction=st.sampled_from([0.8, 0.9]),
)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    made = replace(
        draw(st.sampled_from(KINDS)),
        replicas=draw(st.integers(1, 5)),
        kv=draw(st.sampled_from(FORMATS)),
        name=draw(st.sampled_from(["", "chat", "Ein Höhle's", "-", "engines", "9"])),
        price_per_hour=draw(st.sampled_from([None, 0.0, 2.49])),
        engine=draw(engines),
    )
    if made.data > 1:
        made = replace(made, engine=replace(made.engine, rank_budget=made.engine.token_budget // made.data))
    made = replace(made, power_cap_w=draw(st.sampled_from([0.0, 0.5, 1.0])) * made.device.tdp_w)
    return (
        made
        if not lacks(made, 300)
        else replace(made, engine=Engine(rank_budget=made.engine.rank_budget and 8192 // made.data))
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Equal replicas, a mix of kinds, or prefill and decode apart."""
    first = draw(pools())
    if draw(st.booleans()):
        other = replace(draw(pools()), model=first.model)
        other = replace(first, name="") if lacks(other, 300) else other
        return Fleet((replace(first, role="prefill"), replace(other, role="decode")), "pd_pair")
    others = [replace(each, model=first.model) for each in draw(st.lists(pools(), max_size=2))]
    router = draw(st.sampled_from(["least_requests", "prefix_cache"]))
    return Fleet((first, *(each for each in others if not lacks(each, 300))), router)


settings = st.builds(
    a_setting,
    engine=st.sampled_from(["", "vllm", "sglang"]),
    longest=st.sampled_from([0, 300]),
    checkpoints=st.sampled_from([CHECKPOINTS, {}]),
    tokenizer=st.sampled_from(["", "/models/tokenizer"]),
    images=st.just({"AMD": "registry.example/rocm:1"}),
    cache_claim=st.sampled_from(["", "weights"]),
)
