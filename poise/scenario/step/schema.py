"""The step file: which sections there are, of which kind; every description completes "give …"."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from poise.cost.training.schedules import SCHEDULES
from poise.scenario.policy_spec import choice
from poise.scenario.section import Section, Whole

Share = Annotated[float, Field(ge=0, le=1)]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _lists(value: Any) -> Any:
    """Lists of passes; a single list, or pass, is one."""
    given = _listed(value)
    many = [isinstance(each, list) for each in given]
    if not all(many) and any(many):
        raise ValueError("has passes and lists of passes; give one list, or a list of lists")
    for each in (one for row in (given if all(many) and given else [given]) for one in row):
        choice(each, "pass")
    return given if all(many) and given else [given]


class StepClusterSection(Section):
    """What a step runs on."""

    device: str = Field(description="an accelerator of the catalogue, as in H100")
    devices: Whole = Field(ge=1, description="how many there are, as in 64")
    node: Whole = Field(default=0, ge=0, description="the devices of a server, as in 8; 0 is the device's own")
    nic_gbit_s: float = Field(default=0.0, ge=0, description="Gbit/s of a device between servers; 0 is its own")
    price: float | None = Field(default=None, ge=0, description="dollars per hour of a device, as in 2.5")


class LayoutSection(Section):
    """How the job is laid over the devices; see `poise.cost.training.Layout`."""

    name: str = Field(default="", description="what to call it, as in wide")
    tensor: Whole = Field(default=1, ge=1, description="the ranks of a tensor group, as in 8")
    pipeline: Whole = Field(default=1, ge=1, description="the ranks of a pipeline, as in 4")
    data: Whole | None = Field(default=None, ge=1, description="the pipelines; as many as there is room for if left")
    context: Whole = Field(default=1, ge=1, description="the ranks of a context group, as in 2")
    expert: Whole = Field(default=1, ge=1, description="the ranks over which experts are spread, as in 8")
    expert_tensor: Whole = Field(default=1, ge=1, description="the ranks that share an expert, as in 1")
    chunks: Whole = Field(default=1, ge=1, description="the stages of a rank, as in 2")
    micro_batch: Whole = Field(default=1, ge=1, description="the sequences of a microbatch, as in 1")
    zero: Whole = Field(default=1, ge=0, le=3, description="0, 1, 2 or 3")
    recompute: Literal["none", "selective", "full"] = Field(default="none", description="none, selective or full")
    offload_optimizer: bool = Field(default=False, description="true or false")
    offload_activations: Share = Field(default=0.0, description="a share of them, as in 0.5")


class JitterSection(Section):
    """By how much the times of work differ: standard deviations over means."""

    rank: Share = Field(default=0.0, description="that of the ranks of a pipeline, as in 0.05")
    microbatch: Share = Field(default=0.0, description="that of microbatches, as in 0.1")


class StepRunSection(Section):
    """How often a step with jitter is run."""

    seeds: Annotated[list[Whole] | Whole, Field()] = Field(default=5, description="how many seeds, or which")


class StepCompareSection(Section):
    """What is compared, and by what."""

    by: str = Field(default="step_s", description="a figure, as in step_s")
    vary: dict[str, list[Whole]] = Field(default={}, description="one number with its values, as in {batch: [64, 128]}")


class StepFile(Section):
    """What a step is."""

    kind: Literal["step"] = Field(description="step")
    model: str = Field(description="a model of the catalogue, as in llama-3.1-70b")
    cluster: StepClusterSection = Field(description="a mapping, as in {device: H100, devices: 64}")
    batch: Whole = Field(ge=1, description="the sequences of a step, as in 256")
    sequence: Whole = Field(ge=1, description="their tokens, as in 8192")
    precision: Literal["bf16", "fp8"] = Field(default="bf16", description="bf16 or fp8")
    layout: Annotated[list[LayoutSection], BeforeValidator(_listed)] = Field(
        min_length=1, description="a mapping, as in {tensor: 8, pipeline: 4}, or a list of them"
    )
    schedule: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default=["one_f_one_b"], min_length=1, description=f"one or several of {', '.join(SCHEDULES)}"
    )
    links: Literal["none", "stages", "layers"] = Field(default="none", description="none, stages or layers")
    passes: Annotated[list[list[Any]], BeforeValidator(_lists)] = Field(
        default=[[]], description="a list, as in [{bucketed: {cap_mb: 25}}, side_by_side], or several lists"
    )
    costs: str | None = Field(default=None, description="a file that `poise calibrate` wrote of a recorded step")
    jitter: JitterSection = Field(default=JitterSection(), description="a mapping, as in {microbatch: 0.1}")
    run: StepRunSection = Field(default=StepRunSection(), description="a mapping, as in {seeds: 5}")
    compare: StepCompareSection = Field(default=StepCompareSection(), description="a mapping, as in {by: mfu}")
