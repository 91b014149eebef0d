"""The options of `poise plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from poise.core.errors import UserError
from poise.scenario.options import Columns, Jobs, Quiet, Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options; `json` is a file or `-`."""

    model: Annotated[str, typer.Option(metavar="NAME", help="A built-in model, or a config.json.")]
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="Limits, as in ttft_s=1.0,tpot_s=0.05,attainment=0.99.")]
    devices: Annotated[str, typer.Option(metavar="A,B,…", help="Accelerators to choose from, as in H100,L40S.")]
    traffic: Annotated[
        Path | None,
        typer.Argument(help="A trace, or a scenario for its workload.", metavar="[TRAFFIC]", show_default=False),
    ] = None
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as TRAFFIC.")] = None
    rate: Annotated[
        float | None, typer.Option(metavar="X", max=100_000, help="Poisson arrivals per second, in place of TRAFFIC.")
    ] = None
    prompt_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Prompt tokens per request: a number or a distribution.")
    ] = None
    output_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Output tokens per request, in the same format.")
    ] = None
    minimize: Annotated[str, typer.Option(metavar="AIM", help="What to minimize: cost, energy or gpus.")] = "cost"
    budget: Annotated[
        float | None, typer.Option(metavar="X", help="Highest price of the fleet, in dollars per hour.")
    ] = None
    confidence: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0.0,
            max=0.99,
            help="With which confidence the SLO must hold, given the model's error; 0: by predicted values alone.",
        ),
    ] = 0.8
    own: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your measurements, from poise calibrate --points, to narrow the error."),
    ] = None
    power_w: Annotated[float | None, typer.Option(metavar="X", help="Highest power of all devices, in watts.")] = None
    cap_w: Annotated[
        str | None, typer.Option(metavar="CAPS", help="Power caps: none, ladder, or watts, as in H100=500,L40S=250.")
    ] = None
    prices: Annotated[Path | None, typer.Option(metavar="FILE", help="Prices, spot offers and numbers of devices.")] = (
        None
    )
    formats: Annotated[str, typer.Option(metavar="A,B,…", help="Weight formats to try.")] = "bf16,fp8"
    kv: Annotated[str, typer.Option(metavar="A,B,…", help="KV cache formats to try.")] = "bf16"
    engine: Annotated[str, typer.Option(metavar="NAME", help="Engine: vllm, sglang or tensorrt-llm.")] = "vllm"
    speculative: Annotated[
        str | None, typer.Option(metavar="METHOD:N", help="Tokens drafted in each pass, as in mtp:3 or eagle3:4.")
    ] = None
    widest: Annotated[int, typer.Option(metavar="N", min=1, max=4096, help="Most devices per replica.")] = 16
    no_split: Annotated[bool, typer.Option("--no-split", help="Do not split prefill and decode.")] = False
    no_mix: Annotated[bool, typer.Option("--no-mix", help="Use one kind of replica per role.")] = False
    scale: Annotated[
        bool | None,
        typer.Option("--scale/--no-scale", help="Simulate autoscalers; default: where they could save a fifth."),
    ] = None
    start: Annotated[
        str | None, typer.Option(metavar="STAGES", help="Start-up stages of a replica, as in provision_s=300.")
    ] = None
    columns: Columns = None
    sets: Annotated[
        list[str],
        typer.Option("--set", metavar="PATH=VALUE", help="Change a field of TRAFFIC, as in workload.scale=2."),
    ] = field(default_factory=list)
    requests: Annotated[int, typer.Option(metavar="N", min=100, max=10_000_000, help="Requests per simulation.")] = 4000
    seeds: Annotated[
        int,
        typer.Option(metavar="N", min=2, max=1000, help="Most seeds that confirm a fleet; it ends with what decides."),
    ] = 30
    jobs: Jobs = None
    ray: Ray = None
    time_s: Annotated[
        float | None, typer.Option("--time-limit", metavar="S", max=1_000_000, help="Longest search, in seconds.")
    ] = None
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the plan as JSON; - for standard output.")
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page and the files that deploy the plan.")
    ] = None
    hosts: Annotated[str | None, typer.Option(metavar="A,B,…", help="Hosts to deploy to, filled in this order.")] = None
    checkpoints: Annotated[
        list[str],
        typer.Option("--checkpoint", metavar="FORMAT=REPO", help="Checkpoint to use for a weight format."),
    ] = field(default_factory=list)
    images: Annotated[
        list[str], typer.Option("--image", metavar="MAKER=IMAGE", help="Engine image for a device maker.")
    ] = field(default_factory=list)
    quiet: Quiet = False

    @property
    def recorded(self) -> Path | None:
        """The traffic, however it was named; UserError if it was named twice."""
        if self.traffic is not None and self.trace is not None:
            raise UserError(f"--trace {self.trace}: TRAFFIC is given too, {self.traffic}; give one of them")
        return self.traffic or self.trace
