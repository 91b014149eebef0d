"""vLLM itself reads the command lines that are written for it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from poise.core.spec import Engine
from poise.plan.deploy import vllm
from poise.plan.deploy.script import Spot
from tests.cached import Unavailable
from tests.live.real.install import installed
from tests.plan.deploy.fleets import CHECKPOINTS, a_pool, a_setting

READ = """
import json, sys
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())
for words in json.load(sys.stdin):
    print(vars(parser.parse_args(words[2:]))["served_model_name"])
"""
"""Every word must be known, with a value that its flag takes."""

POOLS = (
    a_pool(),
    a_pool(tensor=2, pipeline=2, weights="fp8", kv="fp8", role="prefill"),
    a_pool(role="decode", kv="fp4", engine=Engine(kv_blocks=500, prefix_caching=False, block_tokens=32)),
    a_pool(weights="int8", kv="int8"),
    a_pool(weights="int4", kv="int4"),
    a_pool("qwen3-30b-a3b", tensor=2, data=4, expert=8),
    a_pool("deepseek-v3", data=16, expert=16, weights="fp8"),
    a_pool("llama-3.1-70b", tensor=8, pipeline=2),
)


@pytest.mark.slow
def test_vllm_reads_them(tmp_path: Path) -> None:
    try:
        python = installed() / "python"
    except Unavailable as why:
        pytest.skip(str(why))
    setting = a_setting(checkpoints=CHECKPOINTS)
    lines = []
    for pool in POOLS:
        hosts = 2 if pool.devices > 8 else 1
        for rank in range(hosts):
            lines.append(vllm.command(pool, setting, Spot("127.0.0.1", "127.0.0.1", hosts, rank, 8100), events=True))
    done = subprocess.run(
        [python, "-c", READ], input=json.dumps(lines), capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n") == len(lines)
