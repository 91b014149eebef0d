"""The files of a small plan: three replicas on two hosts, and the gateway before them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import poise as ps
from poise.plan.deploy import Setting, write_deployment
from poise.plan.fleet import Fleet

replica = ps.Pool(ps.models.qwen3_32b, ps.devices.H100, replicas=3, tensor=4, weights="fp8", price_per_hour=2.99)
setting = Setting(workload={"poisson": {"rate": 6, "requests": 2000}}, hosts=("gpu1", "gpu2"))

with TemporaryDirectory() as folder:
    for file in write_deployment(Fleet((replica,), "prefix_cache"), setting, Path(folder)):
        if file.name in ("vllm.sh", "gateway.yaml", "scenario.yaml"):
            print(f"== {file.name}\n{file.read_text(encoding='utf-8')}")
