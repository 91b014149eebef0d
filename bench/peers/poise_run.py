"""One measured run of Poise, as a user's script would do it: build the workload, simulate, ask for the figures.

The argument is JSON: `load`, `requests` and `router`; or, in place of a router, `write`: [format, file] to write the
load for a peer. Prints one JSON object.
"""

from __future__ import annotations

import gzip
import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from load import BLOCK, GROUPS, OUTPUT, PROMPT, SHARED, TRACE, Load

if TYPE_CHECKING:
    from poise.workload.table import Workload


def workload(load: Load, requests: int) -> Workload:
    """The load's first `requests` requests."""
    if load.kind == "mooncake":
        from poise.workload import read

        return read(TRACE, limit=requests)
    from poise.workload.generate import poisson

    rate = load.rate * load.replicas
    if load.kind == "poisson":
        return poisson(rate, requests=requests, prompt_tokens=PROMPT, output_tokens=OUTPUT)
    from poise.workload.shared import shared_prefixes

    own = poisson(rate, requests=requests, prompt_tokens=PROMPT - SHARED, output_tokens=OUTPUT)
    return shared_prefixes(own, groups=GROUPS, prefix_tokens=SHARED)


def simulated(load: Load, requests: int, router: str) -> dict[str, Any]:
    """Simulate the load on Llama-3.1-8B, one H100 a replica, and what came of it."""
    import poise
    from poise.catalogue import device, model
    from poise.core.compiled import CORE
    from poise.core.spec import Cluster, Pool, Slo
    from poise.policies import Policies
    from poise.policies.find import build
    from poise.report.metrics import measure
    from poise.scenario.simulate import simulate

    pool = Pool(model("llama-3.1-8b"), device("H100-SXM-80GB"), replicas=load.replicas)
    cluster = Cluster((pool,))
    run = simulate(cluster, workload(load, requests), Policies(router=build("router", router)))
    figures = measure(run, cluster, Slo())
    return {
        "core": CORE,
        "package": str(Path(poise.__file__).parent),
        "finished": figures.finished,
        "simulated_s": run.cpu_s,
        "steps": sum(stats.steps for stats in run.replicas),
        "batches": sum(stats.batches for stats in run.replicas),
        "ttft_p50_s": figures.ttft_s.p50,
        "tpot_p50_s": figures.tpot_s.p50,
        "hit_rate": figures.prefix_hit_rate,
    }


def write_mooncake(load: Load, requests: int, out: TextIO) -> None:
    """Prompts as hash ids of `BLOCK` tokens; a recorded trace is copied as it is."""
    if load.kind == "mooncake":
        with gzip.open(TRACE, "rt", encoding="utf-8") as lines:
            out.writelines(islice(lines, requests))
        return
    table = workload(load, requests)
    known = SHARED // BLOCK if table.prefixes is not None else 0
    blocks = -(-PROMPT // BLOCK)
    fresh = GROUPS * known  # ids from here on are used once
    for row in range(len(table)):
        ids = [int(table.prefixes.ids[row]) * known + place for place in range(known)] if table.prefixes else []
        ids += range(fresh, fresh + blocks - known)
        fresh += blocks - known
        at = int(table.arrival[row]) / 1e9
        line = {"timestamp": at, "input_length": PROMPT, "output_length": OUTPUT, "hash_ids": ids}
        out.write(json.dumps(line) + "\n")


def write_vidur(load: Load, requests: int, out: TextIO) -> None:
    """Instants and lengths only: Vidur knows no prompt identity."""
    out.write("arrived_at,num_prefill_tokens,num_decode_tokens\n")
    out.writelines(f"{int(at) / 1e12:.9f},{PROMPT},{OUTPUT}\n" for at in workload(load, requests).arrival)


def main() -> None:
    """Do what the argument says."""
    question = json.loads(sys.argv[1])
    load, requests = Load(*question["load"]), question["requests"]
    if "write" in question:
        form, path = question["write"]
        with Path(path).open("w", encoding="utf-8") as out:
            (write_vidur if form == "vidur" else write_mooncake)(load, requests, out)
    else:
        print(json.dumps(simulated(load, requests, question["router"])))


if __name__ == "__main__":
    main()
