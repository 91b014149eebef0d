"""vLLM's command line of a replica, with the flags of vLLM 0.32 (vllm/engine/arg_utils.py, vllm/config).

Token budget and running requests are those of a replica, and vLLM's are of a data rank, so they are divided.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from poise.core.errors import UserError
from poise.core.spec import Engine, Format, Pool
from poise.plan.deploy.checkpoint import check, checkpoint, longest, made_at_load
from poise.plan.deploy.place import EVENTS, MASTER, REPLAY, RPC, SIDE
from poise.plan.deploy.reads import follows_events
from poise.plan.deploy.script import Spot, plan_of, script
from poise.plan.deploy.setting import Setting
from poise.plan.deploy.speculative import for_vllm
from poise.plan.fleet import Fleet

KV: dict[Format, str] = {"fp8": "fp8", "int8": "int8_per_token_head", "int4": "int4_per_token_head", "fp4": "nvfp4"}
"""`--kv-cache-dtype` for each format that is not the model's own."""

CONNECTOR = "NixlConnector"
ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
Words = list[str]


def commands(fleet: Fleet, setting: Setting) -> str:
    """The script that starts the engines of a host; UserError for what vLLM cannot do."""
    follow = follows_events(fleet, setting)
    comments = [
        *plan_of(fleet, "vLLM"),
        "bash vllm.sh HOST starts that host's engines; without HOST, those of this one",
    ]
    return script(
        fleet,
        setting,
        lambda pool, setting, spot: (variables(pool, spot), command(pool, setting, spot, events=follow)),
        comments,
    )


def command(pool: Pool, setting: Setting, spot: Spot, *, events: bool = False) -> Words:
    """`vllm serve …` of one process of a replica. events: whether it publishes its KV events."""
    check(pool)
    words = ["vllm", "serve", checkpoint(pool, setting), "--served-model-name", pool.model.name]
    words += ["--headless"] if spot.rank else ["--host", "0.0.0.0", "--port", str(spot.port)]
    words += [*_layout(pool), *_hosts(pool, spot), *_formats(pool, setting), *_limits(pool, setting)]
    words += for_vllm(setting.cost)
    if events or pool.engine.block_tokens != Engine().block_tokens:  # attention kernels have a preference of their own
        words += ["--block-size", str(pool.engine.block_tokens)]
    if pool.role != "mixed":
        words += ["--kv-transfer-config", _transfer(pool)]
    if events:
        words += ["--kv-events-config", _events(spot)]
    return words


def variables(pool: Pool, spot: Spot) -> dict[str, str]:
    """Environment variables of a process: where KV transfers are agreed on."""
    if pool.role == "mixed":
        return {}
    return {"VLLM_NIXL_SIDE_CHANNEL_HOST": spot.host, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(spot.port + SIDE)}


def _layout(pool: Pool) -> Words:
    group = pool.tensor * pool.data
    if pool.expert not in (1, group):
        raise UserError(
            f"vLLM spreads experts over all {group} ranks of a group or cuts them all; expert {pool.expert} is neither"
        )
    degrees = (("tensor", pool.tensor), ("pipeline", pool.pipeline), ("data", pool.data))
    words = [word for name, n in degrees if n > 1 for word in (f"--{name}-parallel-size", str(n))]
    return words + (["--enable-expert-parallel"] if pool.expert > 1 else [])


def _hosts(pool: Pool, spot: Spot) -> Words:
    """How the processes of several hosts find each other: data ranks by their address, others by a rendezvous."""
    if spot.hosts == 1:
        return []
    if pool.data == 1:
        where = ["--master-addr", spot.head, "--master-port", str(spot.port + MASTER)]
        nodes = ["--nnodes", str(spot.hosts), "--node-rank", spot.ranks(1), *where]
        return [*nodes, "--distributed-executor-backend", "mp"]
    local = pool.data // spot.hosts
    words = ["--data-parallel-size-local", str(local), "--data-parallel-address", spot.head]
    words += ["--data-parallel-rpc-port", str(spot.port + RPC)]
    return words + (["--data-parallel-start-rank", spot.ranks(local)] if spot.rank else [])


def _formats(pool: Pool, setting: Setting) -> Words:
    words = ["--quantization", pool.weights] if made_at_load(pool, setting) else []
    return words + (["--kv-cache-dtype", KV[pool.kv]] if pool.kv != "bf16" else [])


def _limits(pool: Pool, setting: Setting) -> Words:
    engine = pool.engine
    sequences = ceil(engine.max_sequences / pool.data)
    words = [
        "--max-num-batched-tokens", str(max(engine.token_budget // pool.data, sequences)),
        "--max-num-seqs", str(sequences),
        "--gpu-memory-utilization", f"{engine.memory_fraction:g}",
        "--enable-prefix-caching" if engine.prefix_caching else "--no-enable-prefix-caching",
    ]  # fmt: skip
    if engine.kv_blocks:
        words += ["--num-gpu-blocks-override", str(max(engine.kv_blocks // pool.data, 1))]
    tokens = longest(pool, setting)
    return words + (["--max-model-len", str(tokens)] if tokens else [])


def _transfer(pool: Pool) -> str:
    """The KV transfer from prefill to decode over NIXL; a request whose KV does not arrive fails."""
    return _json({"kv_connector": CONNECTOR, "kv_role": ROLES[pool.role], "kv_load_failure_policy": "fail"})


def _events(spot: Spot) -> str:
    endpoints = {"endpoint": f"tcp://*:{spot.port + EVENTS}", "replay_endpoint": f"tcp://*:{spot.port + REPLAY}"}
    return _json({"enable_kv_cache_events": True, "publisher": "zmq", **endpoints})


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))
