"""SGLang's command line of a replica, with the flags of SGLang 0.5.23 (python/sglang/srt/arg_groups/fields).

`--attn-dp-size N` is what was `--dp-size N --enable-dp-attention` until 0.5.20: attention is repeated inside the tensor
group, which has all devices of a stage. Token budget and running requests are then of all ranks, as in Poise; plain
copies (`--dp-size`, for dense models) have them each.
"""

from __future__ import annotations

import json
from math import ceil, floor

from poise.catalogue.engines import engine_defaults
from poise.core.errors import UserError
from poise.core.spec import Format, Pool
from poise.cost.memory import footprint
from poise.plan.deploy.checkpoint import check, checkpoint, longest, made_at_load
from poise.plan.deploy.place import BOOTSTRAP, EVENTS, MASTER, REPLAY, places
from poise.plan.deploy.reads import follows_events
from poise.plan.deploy.script import Spot, plan_of, script
from poise.plan.deploy.setting import Setting
from poise.plan.deploy.speculative import for_sglang
from poise.plan.fleet import Fleet

KV: dict[Format, str] = {"fp8": "fp8_e4m3", "fp4": "nvfp4"}
"""`--kv-cache-dtype` for each format that is not the model's own."""

Words = list[str]


def commands(fleet: Fleet, setting: Setting) -> str:
    """The script that starts the engines of a host; UserError for what SGLang cannot do."""
    follow = follows_events(fleet, setting)
    comments = [
        *plan_of(fleet, "SGLang"),
        "bash sglang.sh HOST starts that host's engines; without HOST, those of this one",
    ]
    if fleet.split:
        pairs = " ".join(_side(fleet, place.pool, place.url, place.port) for place in places(fleet, setting))
        comments += [
            "Prefill and decode are paired by SGLang's own router; Poise's gateway pairs vLLM's engines only:",
            f"python -m sglang_router.launch_router --pd-disaggregation {pairs} --port {setting.gateway_port}",
        ]
    return script(
        fleet, setting, lambda pool, setting, spot: ({}, command(pool, setting, spot, events=follow)), comments
    )


def command(pool: Pool, setting: Setting, spot: Spot, *, events: bool = False) -> Words:
    """`python -m sglang.launch_server …` of one process of a replica. events: whether it publishes its KV events."""
    check(pool)
    words = ["python", "-m", "sglang.launch_server", "--model-path", checkpoint(pool, setting)]
    words += ["--served-model-name", pool.model.name, "--host", "0.0.0.0", "--port", str(spot.port)]
    words += [*_layout(pool), *_hosts(spot), *_formats(pool, setting), *_limits(pool, setting)]
    words += for_sglang(setting.cost)
    if pool.role != "mixed":
        words += ["--disaggregation-mode", pool.role, "--disaggregation-transfer-backend", "nixl"]
        words += ["--disaggregation-bootstrap-port", str(spot.port + BOOTSTRAP)] if pool.role == "prefill" else []
    if events:
        endpoints = {"endpoint": f"tcp://*:{spot.port + EVENTS}", "replay_endpoint": f"tcp://*:{spot.port + REPLAY}"}
        words += ["--kv-events-config", json.dumps({"publisher": "zmq", **endpoints}, separators=(",", ":"))]
    return [*words, "--enable-metrics"]


def _side(fleet: Fleet, pool: int, url: str, port: int) -> str:
    role = fleet.pools[pool].role
    return f"--prefill {url} {port + BOOTSTRAP}" if role == "prefill" else f"--decode {url}"


def _layout(pool: Pool) -> Words:
    inside = pool.data if pool.model.moe is not None else 1
    degrees = {
        "tp": pool.tensor * inside,
        "pp": pool.pipeline,
        "attn-dp": inside,
        "dp": pool.data // inside,
        "ep": pool.expert,
    }
    return [word for name, n in degrees.items() if n > 1 for word in (f"--{name}-size", str(n))]


def _hosts(spot: Spot) -> Words:
    if spot.hosts == 1:
        return []
    where = f"{spot.head}:{spot.port + MASTER}"
    return ["--nnodes", str(spot.hosts), "--node-rank", spot.ranks(1), "--dist-init-addr", where]


def _formats(pool: Pool, setting: Setting) -> Words:
    if pool.kv not in (*KV, "bf16"):
        raise UserError(f"SGLang keeps KV in bf16, fp8 or fp4, and the plan has {pool.kv}")
    words = ["--quantization", pool.weights] if made_at_load(pool, setting) else []
    return words + (["--kv-cache-dtype", KV[pool.kv]] if pool.kv != "bf16" else [])


def _limits(pool: Pool, setting: Setting) -> Words:
    engine = pool.engine
    copies = 1 if pool.model.moe is not None else pool.data
    words = [
        "--chunked-prefill-size", str(max(engine.token_budget // copies, 1)),
        "--max-running-requests", str(ceil(engine.max_sequences / copies)),
        "--mem-fraction-static", f"{static(pool):g}",
    ]  # fmt: skip
    if pool.role == "mixed" and not engine_defaults(engine.name).prefill_first:
        words.append("--enable-mixed-chunk")  # prompts and decodes shared a step in the simulation
    if pool.model.mla is None:  # whose kernels have pages of their own
        words += ["--page-size", str(engine.block_tokens)]
    if not engine.prefix_caching:
        words.append("--disable-radix-cache")
    if engine.kv_blocks:
        words += ["--max-total-tokens", str(max(engine.kv_blocks // pool.data, 1) * engine.block_tokens)]
    tokens = longest(pool, setting)
    return words + (["--context-length", str(tokens)] if tokens else [])


def static(pool: Pool) -> float:
    """The share of a device's memory for weights and KV: all that is used, without activations; to three places.

    SGLang's fraction leaves activations out, vLLM's and Poise's have them inside.
    """
    share = pool.engine.memory_fraction - footprint(pool).workspace / pool.device.memory_bytes
    return floor(share * 1000) / 1000
