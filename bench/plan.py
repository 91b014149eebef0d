"""The planner beside AIConfigurator: the same questions, what each answer took, and what it was.

    AIC_BIN=…/bin/aiconfigurator python bench/plan.py [--jobs 1] [--repeat 3] [--json FILE]

A question is a model on one kind of device, Poisson requests of one size per second, and limits of time to first token
and per output token; the answer is the fewest devices, as AIConfigurator's `recommend` gives it. Each is a process of
its own; CPU seconds are the kernel's count of it and its children. AIConfigurator answers for the steady state; Poise
simulates every candidate and holds the limits for 99 % of the requests, so it may ask for more. `first` is Poise's time
to a first fleet that holds, start and imports included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.aiconfigurator import AIConfigurator
from peers.process import Failed, spend


@dataclass(frozen=True)
class Question:
    """What is asked of both."""

    model: str
    aic_model: str
    device: str
    aic_system: str
    rate: float
    prompt: int
    output: int
    ttft_s: float
    tpot_s: float

    @property
    def name(self) -> str:
        return f"{self.model} on {self.device}, {self.rate:g}/s of {self.prompt}+{self.output}"


QUESTIONS = (
    Question("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B", "H100", "h100_sxm", 100.0, 1000, 200, 1.0, 0.05),
    Question("qwen3-32b", "Qwen/Qwen3-32B", "H200", "h200_sxm", 40.0, 1000, 200, 1.0, 0.05),
    Question("llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B", "H100", "h100_sxm", 20.0, 3000, 150, 2.0, 0.05),
)


def poise(question: Question, jobs: int, folder: Path) -> dict[str, Any]:
    """The same question to `poise plan`."""
    answer = folder / "plan.json"
    since = time.perf_counter()
    cpu_s, rss, _ = spend(
        [
            *(sys.executable, "-m", "poise", "plan", "--model", question.model, "--devices", question.device),
            *("--slo", f"ttft_s={question.ttft_s},tpot_s={question.tpot_s}", "--minimize", "gpus", "--jobs", str(jobs)),
            *("--rate", str(question.rate), "--prompt-tokens", str(question.prompt), "--formats", "bf16"),
            *("--output-tokens", str(question.output), "--json", str(answer), "--quiet"),
        ]
    )
    wall_s, result = time.perf_counter() - since, json.loads(answer.read_text())
    found = result["plan"]
    return {
        "cpu_s": cpu_s, "wall_s": wall_s, "rss": rss, "gpus": sum(found["devices"].values()),
        "answer": f"{found['fleet']}, {found['router']}, {100 * found['attainment']:.2f} % met",
        "first_s": wall_s - result["search"]["wall_s"] + result["search"]["first_s"],
        "trials": result["search"]["trials"],
    }  # fmt: skip


def main() -> None:
    """Ask, and print a table."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--jobs", type=int, default=1)
    given.add_argument("--repeat", type=int, default=1)
    given.add_argument("--json", type=Path)
    options = given.parse_args()
    peer, rows = AIConfigurator.find(), []
    if peer is None:
        print("AIConfigurator is not given (AIC_BIN); Poise alone")
    with tempfile.TemporaryDirectory() as folder:
        for question in QUESTIONS:
            ours = [poise(question, options.jobs, Path(folder)) for _ in range(options.repeat)]
            theirs = []
            if peer is not None:
                try:
                    theirs = [peer.ask(question) for _ in range(options.repeat)]
                except Failed as error:
                    print(f"{question.name}: {error}", file=sys.stderr)
            rows.append({"question": question.name, "poise": ours, "aiconfigurator": theirs})
            print(f"\n{question.name}")
            for name, runs in (("poise", ours), ("AIConfigurator", theirs)):
                if runs:
                    keys = ("cpu_s", "wall_s", "first_s")
                    cpu, wall, first = (statistics.median(run[key] or 0.0 for run in runs) for key in keys)
                    more = f", first answer {first:.2f} s, {runs[0]['trials']} fleets simulated" if first else ""
                    print(f"  {name:15} {cpu:6.2f} CPU s, {wall:6.2f} s wall{more}: {runs[0]['answer']}")
            if theirs:
                ratio = statistics.median(r["cpu_s"] for r in theirs) / statistics.median(r["cpu_s"] for r in ours)
                print(f"  AIConfigurator takes {ratio:.2f} times the CPU seconds")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
