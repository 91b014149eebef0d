"""Command lines of engines: every flag that a layout, a format and a limit ask for, and shells that pass them on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.core.spec import Engine, Lane, Pool
from poise.plan.deploy import Setting, sglang, vllm
from poise.plan.deploy.script import Spot
from poise.plan.fleet import Fleet
from tests.plan.deploy.fleets import CHECKPOINTS, a_pool, a_setting

HERE = Spot("node", "node", 1, 0, 8100)
SECOND = Spot("other", "node", 2, 1, 8100)


def flags(words: list[str]) -> dict[str, str]:
    """Flags with their values; empty for those without."""
    at = next(at for at, word in enumerate(words) if word.startswith("--"))
    found: dict[str, str] = {}
    for word in words[at:]:
        if word.startswith("--"):
            found[word[2:]] = ""
        else:
            found[[*found][-1]] = word
    return found


def of_vllm(pool: Pool, setting: Setting | None = None, spot: Spot = HERE, **given: Any) -> dict[str, str]:
    return flags(vllm.command(pool, setting or a_setting(), spot, **given))


def of_sglang(pool: Pool, setting: Setting | None = None, spot: Spot = HERE, **given: Any) -> dict[str, str]:
    return flags(sglang.command(pool, setting or a_setting(), spot, **given))


def test_vllm_with_nothing_special() -> None:
    assert of_vllm(a_pool()) == {
        "served-model-name": "meta-llama/Llama-3.1-8B",
        "host": "0.0.0.0",
        "port": "8100",
        "max-num-batched-tokens": "8192",
        "max-num-seqs": "256",
        "gpu-memory-utilization": "0.9",
        "enable-prefix-caching": "",
    }


def test_sglang_with_nothing_special() -> None:
    command = of_sglang(a_pool())
    share = float(command.pop("mem-fraction-static"))
    assert 0.8 < share < 0.9, "activations are no part of it"
    assert command == {
        "model-path": "meta-llama/Llama-3.1-8B",
        "served-model-name": "meta-llama/Llama-3.1-8B",
        "host": "0.0.0.0",
        "port": "8100",
        "chunked-prefill-size": "8192",
        "max-running-requests": "256",
        "enable-mixed-chunk": "",
        "page-size": "16",
        "enable-metrics": "",
    }


def test_the_plans_own_engine() -> None:
    other = Fleet((a_pool(engine=Engine("SGLang")),))
    assert "--enable-mixed-chunk" not in sglang.commands(other, a_setting()), "it computes prompts first"
    assert "# The plan was found for SGLang; vLLM was not simulated" in vllm.commands(other, a_setting())
    assert "was found for" not in sglang.commands(other, a_setting())


def test_layouts() -> None:
    wide = a_pool("qwen3-30b-a3b", tensor=4, pipeline=2, expert=4)
    assert of_vllm(wide).items() >= {
        "tensor-parallel-size": "4", "pipeline-parallel-size": "2", "enable-expert-parallel": "",
    }.items()  # fmt: skip
    assert of_sglang(wide).items() >= {"tp-size": "4", "pp-size": "2", "ep-size": "4"}.items()
    ranks = a_pool("qwen3-30b-a3b", tensor=2, data=4, expert=8)
    assert of_vllm(ranks).items() >= {
        "tensor-parallel-size": "2", "data-parallel-size": "4", "enable-expert-parallel": "",
        "max-num-batched-tokens": "2048", "max-num-seqs": "64",
    }.items()  # fmt: skip
    assert of_sglang(ranks).items() >= {
        "tp-size": "8", "attn-dp-size": "4", "ep-size": "8", "chunked-prefill-size": "8192",
    }.items()  # fmt: skip
    copies = of_sglang(a_pool(data=2))
    assert copies.items() >= {"dp-size": "2", "chunked-prefill-size": "4096", "max-running-requests": "128"}.items()
    assert "tp-size" not in copies


def test_the_budget_of_a_data_rank_holds_its_sequences() -> None:
    command = of_vllm(a_pool("qwen3-30b-a3b", data=8, expert=8, engine=Engine(token_budget=1001, max_sequences=1001)))
    assert int(command["max-num-batched-tokens"]) >= int(command["max-num-seqs"]) == 126


def test_several_hosts() -> None:
    stages = a_pool("llama-3.1-70b", tensor=8, pipeline=2)
    first, second = (of_vllm(stages, spot=Spot("node", "node", 2, rank, 8100)) for rank in (0, 1))
    assert first.items() >= {"nnodes": "2", "node-rank": "0", "master-addr": "node", "master-port": "8901"}.items()
    assert second["node-rank"] == "1" and "headless" in second and "port" not in second
    ranks = a_pool("deepseek-v3", data=16, expert=16, weights="fp8")
    command = of_vllm(ranks, spot=SECOND)
    assert command.items() >= {
        "data-parallel-size-local": "8", "data-parallel-start-rank": "8", "data-parallel-address": "node",
    }.items()  # fmt: skip
    assert "nnodes" not in command
    command = of_sglang(ranks, spot=SECOND)
    assert command.items() >= {"nnodes": "2", "node-rank": "1", "dist-init-addr": "node:8901", "tp-size": "16"}.items()


def test_formats() -> None:
    assert of_vllm(a_pool(weights="fp8", kv="fp8")).items() >= {"quantization": "fp8", "kv-cache-dtype": "fp8"}.items()
    assert of_sglang(a_pool(weights="fp8", kv="fp8"))["kv-cache-dtype"] == "fp8_e4m3"
    published = a_pool("deepseek-v3", "H200", tensor=8, weights="fp8")
    assert "quantization" not in of_vllm(published), "the checkpoint is in that format"
    given = a_setting(checkpoints=CHECKPOINTS)
    words = vllm.command(a_pool(weights="int4"), given, HERE)
    assert words[2] == CHECKPOINTS["int4"] and "--quantization" not in words


def test_limits() -> None:
    engine = Engine(
        token_budget=1024,
        max_sequences=64,
        block_tokens=32,
        prefix_caching=False,
        memory_fraction=0.8,
        kv_blocks=1000,
    )
    command = of_vllm(a_pool(engine=engine))
    assert command.items() >= {
        "block-size": "32", "no-enable-prefix-caching": "", "num-gpu-blocks-override": "1000",
        "gpu-memory-utilization": "0.8", "max-model-len": "32000",
    }.items()  # fmt: skip
    assert of_vllm(a_pool(engine=engine), a_setting(longest=5000))["max-model-len"] == "5000"
    command = of_sglang(a_pool(engine=engine))
    assert command.items() >= {
        "page-size": "32", "disable-radix-cache": "", "max-total-tokens": "32000", "context-length": "32000",
    }.items()  # fmt: skip
    assert "page-size" not in of_sglang(a_pool("deepseek-v2-lite")), "its kernels have pages of their own"


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_roles(role: Any) -> None:
    transfer = json.loads(of_vllm(a_pool(role=role))["kv-transfer-config"])
    assert transfer["kv_connector"] == "NixlConnector"
    assert transfer["kv_role"] == {"prefill": "kv_producer", "decode": "kv_consumer"}[role]
    assert vllm.variables(a_pool(role=role), HERE)["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "node"
    command = of_sglang(a_pool(role=role))
    assert command["disaggregation-mode"] == role
    assert ("disaggregation-bootstrap-port" in command) == (role == "prefill")
    assert "enable-mixed-chunk" not in command


def test_events() -> None:
    for command in (of_vllm(a_pool(), events=True), of_sglang(a_pool(), events=True)):
        config = json.loads(command["kv-events-config"])
        assert config["endpoint"] == "tcp://*:8600" and config["replay_endpoint"] == "tcp://*:8700"
    assert of_vllm(a_pool(), events=True)["block-size"] == "16", "which the gateway is told"


@pytest.mark.parametrize(
    ("command", "pool", "message"),
    [
        (of_vllm, a_pool("qwen3-30b-a3b", tensor=4, expert=2), "over all 4 ranks of a group or cuts them all"),
        (of_vllm, a_pool(weights="int4"), "is published in bf16, and the plan has int4 weights; give a checkpoint"),
        (of_vllm, a_pool("deepseek-v3", weights="bf16"), "is published in fp8, and the plan has bf16 weights"),
        (of_vllm, a_pool(kind="TPU-v5p"), "flags and images are known for devices of NVIDIA and AMD, not TPU-v5p"),
        (of_vllm, a_pool(engine=Engine(lanes=(Lane(share=0.5), Lane("b", share=0.5)))), "lanes that share a device"),
        (of_vllm, a_pool(engine=Engine(host_kv_bytes=1)), "preemption to host memory is not a flag"),
        (of_vllm, a_pool(engine=Engine(reserve_prompt=False)), "reserve_prompt is false"),
        (of_sglang, a_pool(kv="int8"), "SGLang keeps KV in bf16, fp8 or fp4, and the plan has int8"),
    ],
)  # fmt: skip
def test_what_no_flag_says_is_refused(command: Any, pool: Pool, message: str) -> None:
    with pytest.raises(UserError) as error:
        command(pool)
    assert message in str(error.value)


STAND_IN = r"""#!/bin/sh
echo "$(printf '%s\0' "$CUDA_VISIBLE_DEVICES" "${0##*/}" "$@" | od -An -v -tx1 | tr -d ' \n')"
"""
"""An engine that only says how it was called, in one line, for several write at once."""


def ran(text: str, host: str, folder: Path) -> list[tuple[str, list[str]]]:
    """(visible devices, words) of every engine that a script starts on `host`."""
    for name in ("vllm", "python"):
        stand_in = folder / name
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
    file = folder / "engines.sh"
    file.write_text(text)
    done = subprocess.run(
        ["bash", str(file), host], capture_output=True, text=True, timeout=30, check=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    started = [bytes.fromhex(line).decode().split("\0")[:-1] for line in done.stdout.split()]
    return sorted((words[0], words[1:]) for words in started)


@pytest.mark.parametrize("engine", [vllm, sglang])
def test_shells_pass_every_word_on(engine: Any, tmp_path: Path) -> None:
    odd = 'it\'s a "model" $(exit 3) `x` \\ & ; é'
    pool = a_pool(tensor=4, replicas=3, weights="int4", kv="fp8")
    setting = a_setting(checkpoints={"int4": odd}, hosts=("it's one", "two"))
    text = engine.commands(Fleet((pool,)), setting)
    assert ran(text, "it's one", tmp_path) == [
        ("0,1,2,3", engine.command(pool, setting, Spot("it's one", "it's one", 1, 0, 8100))),
        ("4,5,6,7", engine.command(pool, setting, Spot("it's one", "it's one", 1, 0, 9100))),
    ]
    assert len(ran(text, "two", tmp_path)) == 1
    refused = subprocess.run(["bash", "-s", "three"], input=text, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2 and "hosts" in refused.stderr


def test_sglangs_pairs_have_its_own_router() -> None:
    fleet = Fleet((a_pool(role="prefill"), a_pool(role="decode", replicas=2)), "pd_pair")
    (line,) = (line for line in sglang.commands(fleet, a_setting()).splitlines() if "launch_router" in line)
    assert line.startswith("# ")
    sides = "--prefill http://127.0.0.1:8100 8902 --decode http://127.0.0.1:9100 --decode http://127.0.0.1:10100"
    assert line.endswith(f" --pd-disaggregation {sides} --port 8000")
