"""The command line: `poise simulate`, `compare`, `plan`, `diff`, `story`, `calibrate`, `whatif`, `validate`, others.

Thin: the work is in `scenario`, in `plan`, in `truth` and in `claims`.

Exit codes: 0 done, 1 our failure, 2 the user's mistake, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from poise.cli.renamed import renamed
from poise.cli.train import app as train
from poise.core.errors import PoiseError, UserError
from poise.core.extras import install

DONE, FAILED, MISTAKEN, INTERRUPTED = 0, 1, 2, 130

_USAGE: Any = typer.BadParameter.__base__
_CLICK: Any = _USAGE.__base__
"""Typer's own base of errors about the command line."""

app = typer.Typer(
    name="poise",
    help="Simulate, compare, plan and run the scheduling of large models: serving and training.",
    epilog="A first step: poise demo. Then: poise compare examples/quickstart.yaml --out out",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(train, name="train")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Jobs = Annotated[str | None, typer.Option(metavar="N", help="Worker processes; default: one per processor.")]
Ray = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Use a Ray cluster instead; local starts one.")]
"""Worker options, spelled the same in every command that runs many simulations."""


@app.callback()
def _poise(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if version:
        import poise
        from poise.core.compiled import CORE

        typer.echo(f"poise {poise.__version__} ({CORE} core)")
        raise typer.Exit


# `--version` stands alone, without a command.
app.registered_callback.invoke_without_command = True  # type: ignore[union-attr]


@app.command()
def simulate(
    scenario: Annotated[Path, typer.Argument(help="The scenario, a YAML file.", metavar="SCENARIO.yaml")],
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a field, as in cluster.pools.0.replicas=16."),
    ] = None,
    router: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Router to use.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Random seed; replaces those of the scenario.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows of a trace and count them.")] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report, JSON, timeline, requests and resolved scenario.")
    ] = None,
    trace_events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record events and actions of the first seed.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
    blame: Annotated[bool, typer.Option("--blame", help="Attribute the time of each request to its causes.")] = False,
) -> None:
    """Run a scenario and print its results."""
    from poise.scenario.command import SimulateOptions, simulate_file

    options = SimulateOptions(
        scenario, sets or [], router or [], seed, skip_bad, json_file, out, trace_events, quiet, blame
    )
    raise typer.Exit(INTERRUPTED if simulate_file(options) else DONE)


@app.command()
def compare(
    scenario: Annotated[Path, typer.Argument(help="The scenario, a YAML file.", metavar="SCENARIO.yaml")],
    policies: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Routers to compare, as in round_robin,prefix_cache.")
    ] = None,
    loads: Annotated[
        str | None, typer.Option(metavar="X,Y,…", help="Multiples of the workload's rate, as in 0.5,1,2.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N", help="Number of seeds, or a list, as in [3,7].")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="Metric that ranks the policies, as in ttft_s.p99.")
    ] = None,
    find_collapse: Annotated[
        bool, typer.Option("--find-collapse", help="Find the highest load that each policy carries.")
    ] = False,
    jobs: Jobs = None,
    ray: Ray = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a field, as in cluster.pools.0.replicas=16."),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows of a trace and count them.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report, JSON, resolved scenario and every cell.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Reuse the cells that DIR already holds.")] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Write a row for each request of each cell.")] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run only part I of N into DIR, for `poise merge`.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Compare policies at several loads under the same arrivals, with intervals."""
    from poise.scenario.compare.command import CompareOptions, compare_file

    options = CompareOptions(
        scenario, sets or [], policies, loads, seeds, by, find_collapse, jobs, ray, skip_bad, out, resume, requests,
        json_file, quiet, shard,
    )  # fmt: skip
    raise typer.Exit(INTERRUPTED if compare_file(options) else DONE)


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Where the whole goes.", metavar="OUT")],
    parts: Annotated[list[Path], typer.Argument(help="What --shard wrote, all parts.", metavar="PART…")],
    jobs: Jobs = None,
    ray: Ray = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table and no progress.")] = False,
) -> None:
    """Join the parts of a comparison that `poise compare --shard` ran apart."""
    from poise.scenario.compare.merge import merge_parts

    interrupted = merge_parts(out, parts, jobs=jobs, ray=ray, json=json_file, quiet=quiet)
    raise typer.Exit(INTERRUPTED if interrupted else DONE)


@app.command()
def plan(
    model: Annotated[str, typer.Option(metavar="NAME", help="A built-in model, or a config.json.")],
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="Limits, as in ttft_s=1.0,tpot_s=0.05,attainment=0.99.")],
    devices: Annotated[str, typer.Option(metavar="A,B,…", help="Accelerators to choose from, as in H100,L40S.")],
    traffic: Annotated[
        Path | None,
        typer.Argument(help="A trace, or a scenario for its workload.", metavar="[TRAFFIC]", show_default=False),
    ] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as TRAFFIC.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="X", help="Poisson arrivals per second, in place of TRAFFIC.")
    ] = None,
    prompt_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Prompt tokens per request: a number or a distribution.")
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Output tokens per request, in the same format.")
    ] = None,
    minimize: Annotated[str, typer.Option(metavar="AIM", help="What to minimize: cost, energy or gpus.")] = "cost",
    budget: Annotated[
        float | None, typer.Option(metavar="X", help="Highest price of the fleet, in dollars per hour.")
    ] = None,
    power_w: Annotated[float | None, typer.Option(metavar="X", help="Highest power of all devices, in watts.")] = None,
    cap_w: Annotated[
        str | None, typer.Option(metavar="CAPS", help="Power caps: none, ladder, or watts, as in H100=500,L40S=250.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prices, spot offers and numbers of devices.")
    ] = None,
    formats: Annotated[str, typer.Option(metavar="A,B,…", help="Weight formats to try.")] = "bf16,fp8",
    kv: Annotated[str, typer.Option(metavar="A,B,…", help="KV cache formats to try.")] = "bf16",
    engine: Annotated[str, typer.Option(metavar="NAME", help="Engine: vllm, sglang or tensorrt-llm.")] = "vllm",
    widest: Annotated[int, typer.Option(metavar="N", min=1, help="Most devices per replica.")] = 16,
    no_split: Annotated[bool, typer.Option("--no-split", help="Do not split prefill and decode.")] = False,
    no_mix: Annotated[bool, typer.Option("--no-mix", help="Use one kind of replica per role.")] = False,
    scale: Annotated[
        bool | None,
        typer.Option("--scale/--no-scale", help="Simulate autoscalers; default: where they could save a fifth."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="STAGES", help="Start-up stages of a replica, as in provision_s=300.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a field of TRAFFIC, as in workload.scale=2."),
    ] = None,
    requests: Annotated[int, typer.Option(metavar="N", min=100, help="Requests per simulation.")] = 4000,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=2, help="Seeds that confirm the plan under generated load.")
    ] = 5,
    jobs: Jobs = None,
    ray: Ray = None,
    time_s: Annotated[
        float | None, typer.Option("--time-limit", metavar="S", help="Longest search, in seconds.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the plan as JSON; - for standard output.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page and the files that deploy the plan.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Hosts to deploy to, filled in this order.")
    ] = None,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option("--checkpoint", metavar="FORMAT=REPO", help="Checkpoint to use for a weight format."),
    ] = None,
    images: Annotated[
        list[str] | None, typer.Option("--image", metavar="MAKER=IMAGE", help="Engine image for a device maker.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Find the fleet that meets an SLO at the lowest cost, energy or number of devices."""
    from poise.plan.command import PlanOptions, plan_fleet

    if traffic is not None and trace is not None:
        raise UserError(f"--trace {trace}: TRAFFIC is given too, {traffic}; give one of them")
    options = PlanOptions(
        traffic or trace, model, slo, devices, minimize, budget, power_w, cap_w, prices, formats, kv, engine, rate,
        prompt_tokens, output_tokens, sets or [], requests, seeds, widest, no_split, no_mix, scale, start, jobs, ray,
        time_s, json_file, out, hosts, checkpoints or [], images or [], quiet,
    )  # fmt: skip
    raise typer.Exit(INTERRUPTED if plan_fleet(options) else DONE)


@app.command()
def diff(
    before: Annotated[
        Path, typer.Argument(help="Run A: an --out folder made with --blame, or a scenario.", metavar="A")
    ],
    after: Annotated[
        Path | None, typer.Argument(help="Run B, in the same form.", metavar="[B]", show_default=False)
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field of scenario A to make B.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the difference as JSON; - for standard output.")
    ] = None,
) -> None:
    """Compare two runs: which part of latency changed, by how much and for which requests."""
    from poise.scenario.inspect import show_difference

    show_difference(before, after, sets or [], json_file)


@app.command()
def story(
    run: Annotated[Path, typer.Argument(help="An --out folder, or a scenario.", metavar="RUN")],
    request: Annotated[int, typer.Argument(help="Request number, as in requests.parquet.", metavar="REQUEST")],
    router: Annotated[str | None, typer.Option(metavar="NAME", help="Router, where RUN compares several.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the scenario.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the story as JSON; - for standard output.")
    ] = None,
) -> None:
    """Show the events of one request and where its time went."""
    from poise.scenario.inspect import show_story

    show_story(run, request, router, sets or [], json_file)


@app.command()
def demo(
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A recorded trace instead of generated load.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report and the timeline.")] = Path(
        "demo-out"
    ),
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip invalid rows of the trace and count them.")
    ] = False,
) -> None:
    """Compare four routers at four loads on eight replicas."""
    from poise.scenario.command import show_demo

    raise typer.Exit(INTERRUPTED if show_demo(trace, out, skip_bad) else DONE)


@app.command()
def serve(
    file: Annotated[
        Path | None, typer.Argument(help="The gateway file.", metavar="[GATEWAY.yaml]", show_default=False)
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="URL of an engine; repeat for several.")
    ] = None,
    router: Annotated[str | None, typer.Option(metavar="NAME", help="The router.")] = None,
    shadow: Annotated[
        str | None,
        typer.Option(metavar="router=NAME", help="A second router whose decisions are recorded, not executed."),
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all.")] = None,
    port: Annotated[str | None, typer.Option(metavar="N", help="Port for clients.")] = None,
    admin_port: Annotated[str | None, typer.Option(metavar="N", help="Port of the page and /metrics.")] = None,
    record: Annotated[str | None, typer.Option(metavar="FILE", help="Record to FILE (.jsonl or .parquet).")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field, as in limits.held_s=30.")
    ] = None,
) -> None:
    """Run an OpenAI-compatible gateway in front of engines."""
    from poise.scenario.serve.command import ServeOptions
    from poise.scenario.serve.command import serve as serve_file

    options = ServeOptions(file, sets or [], engine or [], router, shadow, host, port, admin_port, record)
    serve_file(options)


@app.command("demo-live")
def demo_live(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the recording.")] = Path("demo-live-out"),
    router: Annotated[str, typer.Option(metavar="NAME", help="The router.")] = "prefix_cache",
    seconds: Annotated[float, typer.Option(metavar="N", help="Seconds of traffic.", min=1.0)] = 60.0,
    port: Annotated[int, typer.Option(metavar="N", help="Port for clients; 0 takes a free one.")] = 8000,
    admin_port: Annotated[int, typer.Option(metavar="N", help="Port of the page; 0 takes a free one.")] = 8001,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Start a gateway and four emulated engines, replay a minute of traffic, and open the page."""
    from poise.scenario.serve.command import DemoOptions, show_live

    raise typer.Exit(INTERRUPTED if show_live(DemoOptions(out, router, seconds, port, admin_port, browser)) else DONE)


_VLLM = "As in vLLM"


@app.command()
def engine(
    model: Annotated[str, typer.Option(metavar="NAME", help="A built-in model, or a config.json.")],
    device: Annotated[str, typer.Option(metavar="NAME", help="A built-in device, as in H100.")] = "H100",
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port.")] = 8000,
    served_model_name: Annotated[list[str] | None, typer.Option(metavar="NAME", help=f"{_VLLM}.")] = None,
    lora_modules: Annotated[list[str] | None, typer.Option(metavar="NAME[=PATH]", help=f"{_VLLM}.")] = None,
    max_model_len: Annotated[int, typer.Option(metavar="TOKENS", help=f"{_VLLM}; 0 takes the model's own.")] = 0,
    block_size: Annotated[int, typer.Option(metavar="TOKENS", help=f"{_VLLM}.")] = 16,
    max_num_seqs: Annotated[int, typer.Option(metavar="N", help=f"{_VLLM}.")] = 256,
    max_num_batched_tokens: Annotated[int, typer.Option(metavar="TOKENS", help=f"{_VLLM}.")] = 8192,
    num_gpu_blocks_override: Annotated[int, typer.Option(metavar="N", help=f"{_VLLM}; 0 derives it.")] = 0,
    enable_prefix_caching: Annotated[bool, typer.Option(help=f"{_VLLM}.")] = True,
    gpu_memory_utilization: Annotated[float, typer.Option(metavar="SHARE", help=f"{_VLLM}.")] = 0.9,
    tensor_parallel_size: Annotated[int, typer.Option(metavar="N", help=f"{_VLLM}.")] = 1,
    kv_events_config: Annotated[str | None, typer.Option(metavar="JSON", help=f"{_VLLM}.")] = None,
    api_key: Annotated[list[str] | None, typer.Option(metavar="KEY", help=f"{_VLLM}.")] = None,
    enable_prompt_tokens_details: Annotated[bool, typer.Option(help=f"{_VLLM}.")] = False,
    speed: Annotated[float, typer.Option(metavar="FACTOR", help="Speed-up over real time.")] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for texts and output lengths.")] = 0,
    faults: Annotated[bool, typer.Option("--faults", help="Accept faults at POST /fault, for tests.")] = False,
) -> None:
    """Emulate an engine: vLLM's HTTP and metrics, timed by the cost model."""
    from poise.scenario.serve.command import emulate

    given = {name: value for name, value in locals().items() if name != "emulate"}
    raise typer.Exit(emulate(given))


@app.command()
def calibrate(
    recording: Annotated[
        Path | None,
        typer.Argument(
            help="A recording of `poise serve` or `poise train run`, or a log of vLLM or SGLang.",
            metavar="[RECORDING|LOG|STEP.json]",
            show_default=False,
        ),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Fit operators to the profiles in DIR, for `cost: measured`."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the fitted cost, for `cost: {fitted: FILE}`.")
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier fit, for parameters that this load does not determine."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model of the log; kept in the cost.")] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="Device of the log; kept in the cost.")] = None,
    tensor: Annotated[
        int | None, typer.Option(metavar="N", help="Tensor-parallel degree of the log; kept in the cost.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Fit step costs to a recording, an engine log, a training step or operator profiles."""
    from poise.recordings.command import Fit, calibrate_file, calibrate_log, calibrate_profiles
    from poise.recordings.engine_logs.command import Of, is_log
    from poise.recordings.step import calibrate_step
    from poise.runtime.recording import is_step

    of = Of(model, device, tensor)
    if profiles is not None:
        if recording is not None or prior is not None or of != Of():
            raise UserError(
                "--profiles: fits operators, so neither RECORDING nor --prior, --model, --device or --tensor has a "
                "part in it; leave them"
            )
        calibrate_profiles(profiles, out, quiet)
        return
    if recording is None:
        raise UserError(
            "nothing to fit to; give a RECORDING of `poise serve --record`, the LOG of an engine, or --profiles DIR"
        )
    fit = Fit(recording, out, prior, json_file, quiet)
    if is_step(recording):
        if prior is not None or of != Of():
            raise UserError("--prior, --model, --device, --tensor: have no part in a training step; leave them")
        calibrate_step(fit)
        return
    if is_log(recording):
        calibrate_log(fit, of)
        return
    if of != Of():
        raise UserError("--model, --device, --tensor: say whose log it is, and this is a recording; leave them")
    calibrate_file(fit)


@app.command()
def whatif(
    recording: Annotated[Path, typer.Argument(help="A recording of `poise serve --record`.", metavar="RECORDING")],
    router: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Router to try; each one given is a candidate.")
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option(metavar="SLOT=NAME", help="Policy of another slot, in all candidates.")
    ] = None,
    replicas: Annotated[int | None, typer.Option(metavar="N", help="Number of engines in all candidates.")] = None,
    cost: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this cost of `poise calibrate`; do not fit.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="Metric that ranks the policies, as in ttft_s.p99.")
    ] = None,
    jobs: Jobs = None,
    ray: Ray = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write report, JSON and cost.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Estimate what other policies would have done with recorded requests."""
    from poise.recordings.command import RecordingOptions, whatif_file

    options = RecordingOptions(
        recording, tuple(router or ()), tuple(policies or ()), replicas, cost, by, jobs, ray, json_file, out, quiet
    )  # fmt: skip
    raise typer.Exit(INTERRUPTED if whatif_file(options) else DONE)


@app.command(cls=renamed(page="out"))
def validate(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of measurements; default: POISE_DATA.", metavar="[DIR]", show_default=False),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the scores as JSON; - for standard output.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scores of an earlier run; exit code 1 if a group got worse.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a page of predicted over measured.")] = None,
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every prediction as a CSV table.")] = None,
    spread: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the errors of held-out devices, by kind.")
    ] = None,
    jobs: Jobs = None,
    ray: Ray = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Compare predictions with measured runs."""
    try:
        from poise.validation.command import ValidateOptions, validate_folder
    except ModuleNotFoundError as error:  # the wheel of Poise leaves it out
        if not (error.name or "").startswith("poise.validation"):
            raise
        raise UserError(f"validate: poise-validation is not installed; {install('validate')}") from None

    fell = validate_folder(ValidateOptions(folder, json_file, against, out, answers, spread, jobs, ray, quiet))
    raise typer.Exit(FAILED if fell else DONE)


@app.command()
def models(json: Json = False) -> None:
    """List the built-in models."""
    _list("models", json)


@app.command()
def devices(json: Json = False) -> None:
    """List the built-in devices."""
    _list("devices", json)


@app.command()
def policies(json: Json = False) -> None:
    """List the policies of all slots."""
    _list("policies", json)


@app.command()
def systems(
    which: Annotated[
        str | None,
        typer.Argument(
            help="One system, by name or arXiv id, or all of a slot or group.", metavar="[WHICH]", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the published systems, whether Poise implements them, and whether their claims reproduce."""
    from poise.claims.command import list_systems

    list_systems(which, json)


@app.command()
def claim(
    name: Annotated[str, typer.Argument(help="A system that `poise systems` lists.", metavar="NAME")],
    quick: Annotated[bool, typer.Option("--quick", help="Run a tenth of the requests; not a result to keep.")] = False,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of traces; default: POISE_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write report.html and result.json.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep the result; `poise systems` then lists it.")] = False,
    jobs: Annotated[str | None, typer.Option(metavar="N", help="Worker processes; default: 1.")] = None,
    ray: Ray = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")] = False,
) -> None:
    """Rerun the experiment behind a published claim and check its criteria."""
    from poise.claims.command import ClaimOptions, try_claim

    try_claim(ClaimOptions(name, quick, data, out, json_file, save, quiet, jobs, ray))


def _list(what: str, json: bool) -> None:
    from poise.scenario.command import show_listing

    show_listing(what, json)


@cache
def _command() -> Any:
    """The command line, made once for all calls of a process."""
    return typer.main.get_command(app)


def main(argv: list[str] | None = None) -> int:
    """Run the command line on `argv` (default: that of the process) and return the exit code."""
    try:
        code = _command().main(args=argv, prog_name="poise", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except UserError as error:
        return _say(str(error), MISTAKEN)
    except PoiseError as error:
        return _ours(error, f"{type(error).__name__}: {error}")
    except _CLICK as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted; nothing was written", INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # Typer leaves by SystemExit when whoever reads us has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        return _ours(error, f"internal error: {type(error).__name__}: {error}")


def _usage(error: Any) -> int:
    """A mistake on the command line; asked for nothing, `poise` prints its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return MISTAKEN
    asked = getattr(error, "ctx", None)
    path = asked.command_path if asked is not None else "poise"
    return _say(f"{error.format_message().rstrip('.')}; see `{path} --help`", MISTAKEN)


def _ours(error: Exception, said: str) -> int:
    """A failure that is not the user's: one line, or the traceback for whoever asks for it."""
    if os.environ.get("POISE_DEBUG"):
        raise error
    return _say(f"{said}; for the traceback run again with POISE_DEBUG=1", FAILED)


def _say(message: str, code: int) -> int:
    """One line on standard error."""
    print("poise:", " ".join(message.split()), file=sys.stderr)
    return code
