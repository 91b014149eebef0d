"""Record a day under round robin, fit the engines' step cost to it, and ask what another router would have done."""

from pathlib import Path
from tempfile import TemporaryDirectory

import poise as ps
from poise.core.records.trace import Trace
from poise.live.parts import read_recording
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from poise.recordings.calibrate import calibrate
from poise.recordings.recording import recorded
from poise.recordings.show import show_whatif
from poise.recordings.whatif import WhatIfQuestion, whatif
from poise.scenario.record import simulation_header

cluster = ps.Cluster.of("H100", count=3).replicas(3, model="llama-3.1-8b")
arrivals = ps.workload.poisson(
    25, requests=1500, prompt_tokens=ps.workload.lognormal(400, 0.8), output_tokens=ps.workload.lognormal(60, 0.7)
)
traffic = ps.workload.shared_prefixes(arrivals, groups=200, prefix_tokens=3000)

with TemporaryDirectory() as folder:
    path = Path(folder) / "day.jsonl"
    # Here a simulation stands for the day; a gateway writes such a file with --record.
    header = simulation_header(cluster, ps.cost.Roofline(), {"router": {"round_robin": {}}}, ps.Belief())
    with path.open("w", encoding="utf-8") as file:
        ps.simulate(cluster, traffic, ps.Policies(router=RoundRobin()), trace=Trace(header, file))

    day = recorded(read_recording(path))
    fitted = calibrate(day)
    show_whatif(whatif(day, WhatIfQuestion({"prefix_cache": {"router": PrefixCache()}}), fitted.cost, fitted))
