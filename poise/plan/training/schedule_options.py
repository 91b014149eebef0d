"""The options of `poise train schedule` and `schedules`; numbers are texts, to be taken exactly."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poise.core.errors import ScheduleError, UserError
from poise.scenario.options import Json

if TYPE_CHECKING:
    from poise.pipeline import Costs

Ranks = Annotated[int, typer.Option(metavar="P", help="Pipeline ranks.", min=1)]
Microbatches = Annotated[int, typer.Option(metavar="M", help="Microbatches per step; default: 2 per rank.", min=1)]
Chunks = Annotated[int | None, typer.Option(metavar="V", help="Model chunks per rank.", min=1)]
_EACH = "one number, or one per stage, as in 1,1,1.5"
_SAME = "in the format of --f"
ForwardTime = Annotated[str, typer.Option("--f", metavar="T,…", help=f"Time of a forward pass: {_EACH}.")]
InputTime = Annotated[str, typer.Option("--b", metavar="T,…", help=f"Time of an input-gradient pass, {_SAME}.")]
WeightTime = Annotated[str, typer.Option("--w", metavar="T,…", help=f"Time of a weight-gradient pass, {_SAME}.")]
LinkTime = Annotated[str, typer.Option("--comm", metavar="T,…", help=f"Time of a message to the next rank, {_SAME}.")]
ShardTime = Annotated[str, typer.Option("--s", metavar="T,…", help="Time of vocabulary pass S on each rank.")]
RestTime = Annotated[str, typer.Option("--t", metavar="T,…", help="Time of vocabulary pass T on each rank.")]
BarrierTime = Annotated[
    str, typer.Option("--barrier", metavar="T", help="Time of a barrier between vocabulary passes.")
]
AwayTime = Annotated[
    str | None,
    typer.Option(
        "--offload", metavar="T,…", help="Time to copy a stage's activations to the host; default (f + b + w) / 2."
    ),
]
BackTime = Annotated[
    str | None, typer.Option("--reload", metavar="T,…", help="Time to copy them back, in the same format.")
]
Limit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="X,…", help="Most activations per rank, in microbatches of a full stage."),
]
By = Annotated[str | None, typer.Option("--by", metavar="makespan|span", help="What searching schedulers minimize.")]
Page = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page with timeline and memory.")]
Given = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the schedule, as in alive=6.")
]
CostsFile = Annotated[
    Path | None, typer.Option("--costs", metavar="FILE", help="Costs that `poise calibrate` fitted to a recorded step.")
]

TIMES = ("f", "b", "w", "comm", "s", "t", "barrier", "offload", "reload")
"""Options that a file of costs replaces."""


MOST_PASSES = 1_000_000
"""Ranks times microbatches beyond which a schedule takes minutes to make and cannot be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The pipeline and the times of its passes; copies to the host take (f + b + w) / 2 unless given."""

    ranks: Ranks
    microbatches: Microbatches = field(default_factory=int)
    chunks: Chunks = None
    f: ForwardTime = "1"
    b: InputTime = "1"
    w: WeightTime = "1"
    comm: LinkTime = "0"
    costs_file: CostsFile = None
    s: ShardTime = "0"
    t: RestTime = "0"
    barrier: BarrierTime = "0"
    offload: AwayTime = None
    reload: BackTime = None
    memory_limit: Limit = None

    def __post_init__(self) -> None:
        if not self.microbatches:  # as in `poise train run`; the default depends on another option
            object.__setattr__(self, "microbatches", 2 * self.ranks)
        if self.ranks * self.microbatches > MOST_PASSES:
            raise UserError(
                f"--ranks {self.ranks} --microbatches {self.microbatches}: their product must be at most "
                f"{MOST_PASSES:,}, for each of them is an operation to place; give fewer"
            )

    @property
    def costs(self) -> Costs:
        """The durations that were given."""
        from poise.pipeline import Costs

        if self.costs_file is not None:
            return self._saved(self.costs_file)
        main = Costs.of(*(numbers(each) for each in (self.f, self.b, self.w, self.comm)))
        size = max(len(main.f), len(main.b), len(main.w))
        work = [sum((each[at % len(each)] for each in (main.f, main.b, main.w)), Fraction(0)) for at in range(size)]
        half = [each / 2 for each in work]
        read = Costs.of(
            s=numbers(self.s), t=numbers(self.t), barrier=self.barrier,
            offload=half if self.offload is None else numbers(self.offload),
            reload=half if self.reload is None else numbers(self.reload),
        )  # fmt: skip
        return replace(read, f=main.f, b=main.b, w=main.w, comm=main.comm)

    def _saved(self, file: Path) -> Costs:
        from poise.pipeline.saved import load_costs

        if any(getattr(self, each.name) != each.default for each in fields(self) if each.name in TIMES):
            raise ScheduleError(f"--costs {file}: holds all times; leave --f, --b, --w, --comm and the like")
        return load_costs(file).whole(self.ranks)

    @property
    def limit(self) -> list[Fraction] | Fraction | None:
        """The most activations that a rank, or each of them, may hold."""
        return None if self.memory_limit is None else limit_of(self.memory_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesOptions(PipelineOptions):
    """The options of `poise train schedules`; `json` is a file or `-`."""

    by: By = None
    json: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(PipelineOptions):
    """The options of `poise train schedule`; `json` is a file or `-`."""

    name: Annotated[str, typer.Argument(help="The schedule, as in zb_v.", metavar="NAME")]
    given: Given = field(default_factory=list)
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the schedule, as .json or .txt.")] = None
    by: By = None
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the schedule as PyTorch's CSV.")] = None
    communications: Annotated[
        bool, typer.Option("--communications", help="Include sends, receives and reductions in the CSV.")
    ] = False
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline.")] = None
    page: Page = None
    beside: Annotated[str, typer.Option(metavar="NAME,…", help="Other schedules to compare with.")] = ""
    json: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions(PipelineOptions):
    """The options of `poise train show`; `json` is a file or `-`."""

    source: Annotated[
        str, typer.Argument(help="A schedule, as in zb_v, or a file of a Program or schedule.", metavar="NAME|FILE")
    ]
    ranks: Annotated[int, typer.Option(metavar="P", help="Pipeline ranks; a file has its own.", min=1)] = field(
        default_factory=int
    )
    given: Given = field(default_factory=list)
    by: By = None
    times: Annotated[
        list[str], typer.Option("--time", metavar="KIND=T", help="Time of each task of a kind, as in all_reduce=0.5.")
    ] = field(default_factory=list)
    text: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the Program as text, to edit and show.")] = (
        None
    )
    perfetto: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of all lanes.")] = (
        None
    )
    page: Page = None
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a row for each task with its times.")] = None
    json: Json = None

    def __post_init__(self) -> None:
        if self.ranks:
            PipelineOptions.__post_init__(self)


def numbers(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",")]


def limit_of(text: str) -> list[Fraction] | Fraction:
    """The limits in `--memory-limit`; ScheduleError where one is not a positive number."""
    try:
        limits = [Fraction(each) for each in numbers(text)]
    except (ValueError, ZeroDivisionError):
        limits = [Fraction(0)]
    if min(limits) <= 0:
        raise ScheduleError(
            f"--memory-limit {text!r}: give a number of full-stage microbatch activations, as in 8, or one per stage"
        )
    return limits if len(limits) > 1 else limits[0]
