"""The command line: `poise simulate`, `compare`, `plan`, `diff`, `story`, `calibrate`, `whatif`, `validate`, others.

Thin: options are read here, the work is in `scenario`, `plan`, `recordings`, `validation` and `claims`.

Exit codes: 0 done, 1 our failure, 2 the user's mistake, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from poise.claims.options import ClaimOptions
from poise.cli.completion import SHELLS, VARIABLE, complete, script
from poise.cli.experts import app as experts
from poise.cli.reading import reads
from poise.cli.spelled import optional, renamed
from poise.cli.train import app as train
from poise.core.errors import PoiseError, UserError
from poise.core.extras import install
from poise.plan.options import PlanOptions
from poise.recordings.options import RecordingOptions
from poise.scenario.options import (
    Columns,
    CompareOptions,
    DemoOptions,
    Jobs,
    Json,
    Quiet,
    Ray,
    ServeOptions,
    SimulateOptions,
    ValidateOptions,
)
from poise.ui.options import UiOptions

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
app.add_typer(experts, name="experts")

Listed = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the list as JSON; - for standard output.")
]
"""`--json` of the commands that print a list; without FILE it is `-` (`optional`)."""


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
@reads(SimulateOptions)
def simulate(options: SimulateOptions) -> None:
    """Run a scenario and print its results."""
    from poise.scenario.command import simulate_file

    raise typer.Exit(INTERRUPTED if simulate_file(options) else DONE)


@app.command()
@reads(CompareOptions)
def compare(options: CompareOptions) -> None:
    """Compare policies at several loads under the same arrivals, with intervals."""
    from poise.scenario.compare.command import compare_file

    raise typer.Exit(INTERRUPTED if compare_file(options) else DONE)


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Where the whole goes.", metavar="OUT")],
    parts: Annotated[list[Path], typer.Argument(help="What --shard wrote, all parts.", metavar="PART…")],
    jobs: Jobs = None,
    ray: Ray = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Join the parts of a comparison that `poise compare --shard` ran apart."""
    from poise.scenario.compare.merge import merge_parts

    interrupted = merge_parts(out, parts, jobs=jobs, ray=ray, json=json, quiet=quiet)
    raise typer.Exit(INTERRUPTED if interrupted else DONE)


@app.command()
@reads(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Find the fleet that meets an SLO at the lowest cost, energy or number of devices."""
    from poise.plan.command import plan_fleet

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
    from poise.scenario.diff import show_difference

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
    from poise.scenario.story import show_story

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
    columns: Columns = None,
    quiet: Quiet = False,
) -> None:
    """Compare four routers at four loads on eight replicas."""
    from poise.scenario.command import show_demo

    raise typer.Exit(INTERRUPTED if show_demo(trace, out, skip_bad, columns, quiet=quiet) else DONE)


@app.command()
@reads(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Run an OpenAI-compatible gateway in front of engines."""
    from poise.scenario.serve.command import serve as serve_file

    serve_file(options)


@app.command()
@reads(UiOptions)
def ui(options: UiOptions) -> None:
    """Open a local page that runs compare and plan on your traces and keeps their results."""
    from poise.ui.command import show_ui

    show_ui(options)


@app.command("demo-live")
@reads(DemoOptions)
def demo_live(options: DemoOptions) -> None:
    """Start a gateway and four emulated engines, send traffic until Ctrl-C, and open the page."""
    from poise.scenario.serve.command import show_live

    raise typer.Exit(INTERRUPTED if show_live(options) else DONE)


_VLLM = "As in vLLM"


@app.command()
def engine(
    model: Annotated[str, typer.Option(metavar="NAME", help="A built-in model, or a config.json.")],
    device: Annotated[str, typer.Option(metavar="NAME", help="A built-in device, as in H100.")] = "H100",
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port.")] = 8000,
    served_model_name: Annotated[list[str] | None, typer.Option(metavar="NAME", help=f"{_VLLM}.")] = None,
    lora_modules: Annotated[list[str] | None, typer.Option(metavar="NAME[=PATH]", help=f"{_VLLM}.")] = None,
    enable_lora: Annotated[bool, typer.Option("--enable-lora", help=f"{_VLLM}; else adapters cost nothing.")] = False,
    max_loras: Annotated[int, typer.Option(metavar="N", help=f"{_VLLM}.")] = 1,
    max_cpu_loras: Annotated[int, typer.Option(metavar="N", help=f"{_VLLM}; 0 takes --max-loras.")] = 0,
    max_lora_rank: Annotated[int, typer.Option(metavar="RANK", help=f"{_VLLM}.")] = 16,
    allow_runtime_lora_updating: Annotated[
        bool,
        typer.Option(
            "--allow-runtime-lora-updating",
            envvar="VLLM_ALLOW_RUNTIME_LORA_UPDATING",
            help="Let clients load and unload adapters, as vLLM does by this variable.",
        ),
    ] = False,
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
    points: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Compare predictions with your measured points, for `poise plan --own`."),
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
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Fit step costs to a recording, an engine log, a training step or operator profiles."""
    from poise.recordings.command import Fit, calibrate_file, calibrate_log, calibrate_profiles
    from poise.recordings.engine_logs.command import Of, is_log
    from poise.recordings.step import calibrate_step
    from poise.runtime.recording import is_step

    of = Of(model, device, tensor)
    if points is not None:
        if recording is not None or profiles is not None or prior is not None or json is not None or of != Of():
            raise UserError("--points: reads a table alone; leave all but --out and --quiet")
        _validation("poise.validation.own", "calibrate --points").calibrate_points(points, out, quiet)
        return
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
    fit = Fit(recording, out, prior, json, quiet)
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
@reads(RecordingOptions)
def whatif(options: RecordingOptions) -> None:
    """Estimate what other policies would have done with recorded requests."""
    from poise.recordings.command import whatif_file

    raise typer.Exit(INTERRUPTED if whatif_file(options) else DONE)


@app.command(cls=renamed(page="out"))
@reads(ValidateOptions)
def validate(options: ValidateOptions) -> None:
    """Compare predictions with measured runs."""
    folder = _validation("poise.validation.command", "validate")
    raise typer.Exit(FAILED if folder.validate_folder(options) else DONE)


def _validation(module: str, command: str) -> Any:
    """A module of `poise.validation`, which the wheel of Poise leaves out."""
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("poise.validation"):
            raise
        raise UserError(f"{command}: poise-validation is not installed; {install('validate')}") from None


@app.command(cls=optional("json", "-"))
def models(json: Listed = None) -> None:
    """List the built-in models."""
    _list("models", json)


@app.command(cls=optional("json", "-"))
def devices(json: Listed = None) -> None:
    """List the built-in devices."""
    _list("devices", json)


@app.command(cls=optional("json", "-"))
def policies(json: Listed = None) -> None:
    """List the policies of all slots."""
    _list("policies", json)


@app.command(cls=optional("json", "-"))
def systems(
    which: Annotated[
        str | None,
        typer.Argument(
            help="One system, by name or arXiv id, or all of a slot or group.", metavar="[WHICH]", show_default=False
        ),
    ] = None,
    json: Listed = None,
) -> None:
    """List the published systems, whether Poise implements them, and whether their claims reproduce."""
    from poise.claims.command import list_systems

    list_systems(which, json)


@app.command()
@reads(ClaimOptions)
def claim(options: ClaimOptions) -> None:
    """Rerun the experiment behind a published claim and check its criteria."""
    from poise.claims.command import try_claim

    try_claim(options)


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(help=f"{', '.join(SHELLS)}.", metavar="SHELL", show_default=False)],
) -> None:
    """Print a script that completes commands, options and names in a shell.

    For bash: poise completion bash > ~/.local/share/bash-completion/completions/poise
    """
    print(script(shell))


def _list(what: str, json: str | None) -> None:
    from poise.scenario.command import show_listing

    show_listing(what, json)


WELCOME = """Poise simulates, compares and plans how large models are served and trained. Three things to do first:

  poise demo
      Four routers at four loads on eight simulated H100s: which one to take, and a report. Half a minute.
  poise demo --trace FILE
      The same on your own requests: CSV, JSONL or Parquet; logs of Mooncake, Azure, LiteLLM, Langfuse and OpenAI.
  poise plan --model llama-3.1-8b --devices H100,L40S --slo ttft_s=1,tpot_s=0.05 --rate 20 \\
             --prompt-tokens 1000 --output-tokens 200
      The cheapest fleet that keeps a latency promise, and the files that deploy it. A minute.

`poise --help` lists every command, `poise COMMAND --help` its options."""
"""What `poise` alone prints on a terminal."""


@cache
def _command() -> Any:
    """The command line, made once for all calls of a process."""
    made = typer.main.get_command(app)
    if VARIABLE in os.environ:
        complete(made)
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command line on `argv` (default: that of the process) and return the exit code."""
    if not (sys.argv[1:] if argv is None else argv) and sys.stdout.isatty():
        print(WELCOME)
        return DONE
    try:
        code = _command().main(args=argv, prog_name="poise", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except UserError as error:
        return _fail(str(error), MISTAKEN)
    except PoiseError as error:
        return _ours(error, f"{type(error).__name__}: {error}")
    except _CLICK as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; nothing was written", INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # Typer leaves by SystemExit when whoever reads us has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except MemoryError as error:
        more = f" ({error})" if str(error) else ""
        return _fail(f"memory ran out{more}; ask for fewer requests, replicas or seeds", MISTAKEN)
    except Exception as error:
        return _ours(error, f"internal error: {type(error).__name__}: {error}")


def _usage(error: Any) -> int:
    """A mistake on the command line; asked for nothing, `poise` prints its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return MISTAKEN
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "poise"
    return _fail(f"{error.format_message().rstrip('.')}; see `{path} --help`", MISTAKEN)


def _ours(error: Exception, text: str) -> int:
    """A failure that is not the user's: one line, or the traceback for whoever asks for it."""
    if os.environ.get("POISE_DEBUG"):
        raise error
    return _fail(f"{text}; for the traceback run again with POISE_DEBUG=1", FAILED)


def _fail(message: str, code: int) -> int:
    """One line on standard error."""
    print("poise:", " ".join(message.split()), file=sys.stderr)
    return code
