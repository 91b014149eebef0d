"""The scenario file: which sections and fields there are, of which kind, within which bounds.

Every field's description completes "give …", for it is the cure in error messages. What relates one field to another
is in checks.py; names of models, devices and policies are looked up in build.py. Defaults are those of the core specs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, create_model

from poise.catalogue.drafts import Method
from poise.catalogue.engines import engine_defaults
from poise.core.precision import Format
from poise.core.slot import SCENARIO, SLOTS, Slot
from poise.core.spec import Belief as CoreBelief
from poise.core.spec import Engine as CoreEngine
from poise.core.spec import Fabric, FaultKind, Role
from poise.core.spec import Lane as CoreLane
from poise.cost.expert_files import MOST_ZIPF
from poise.scenario.policy_spec import check_admissions, check_choices, check_routers, check_terms
from poise.scenario.schema_workload import WorkloadSection
from poise.scenario.section import Section, Whole, whole
from poise.scenario.speculative import flags

_ENGINE, _LANE, _BELIEF = CoreEngine(), CoreLane(), CoreBelief()


class LaneSection(Section):
    """One stream of steps on a replica's device."""

    name: str = Field(default=_LANE.name, description="a name for the lane")
    prefill: bool = Field(default=_LANE.prefill, description="whether the lane computes prompts")
    decode: bool = Field(default=_LANE.decode, description="whether the lane computes output tokens")
    share: float = Field(
        default=_LANE.share, gt=0, le=1, description="the lane's share of the device's SMs; together they may exceed 1"
    )
    borrows: bool = Field(
        default=_LANE.borrows, description="whether a step that begins while no other lane has work takes all SMs"
    )


def check_engine(name: str) -> str:
    """An engine whose kernels may have been measured."""
    if not engine_defaults(name).known:
        raise ValueError(f"{name!r} is not a known engine; give vllm, sglang or tensorrt-llm")
    return name


class ExpertLoadSection(Section):
    """How popular the experts of a mixture are, by one of two descriptions."""

    zipf: float | None = Field(
        default=None, ge=0, le=MOST_ZIPF, description="the exponent by which popularity falls with rank, as in 0.5"
    )
    file: str | None = Field(
        default=None, description="recorded loads: a CSV table, SGLang's .json or .pt, or an engine's log"
    )


def _loaded(value: Any) -> str:
    """Which of the two forms of an expert load `value` has; the tags in brackets are left out of error messages."""
    return "[load]" if isinstance(value, dict | ExpertLoadSection) else "[word]"


StatedLoad = Annotated[
    Annotated[Literal["measured", "balanced"], Tag("[word]")] | Annotated[ExpertLoadSection, Tag("[load]")],
    Discriminator(_loaded),
]


class ExpertPlacementSection(Section):
    """Which ranks hold copies of which experts: by a balancer, or as in a file."""

    balancer: str | None = Field(
        default=None, description="who places them, a policy of the slot expert_balancer; null: floating_copies"
    )
    redundant: Whole = Field(default=0, ge=0, description="copies of a layer's experts beyond the first of each")
    nodes: Whole = Field(default=1, ge=1, description="hosts over which the ranks of experts spread evenly")
    groups: Whole = Field(default=1, ge=1, description="groups of experts that the router chooses first (n_group)")
    seen: StatedLoad | None = Field(
        default=None, description="the load that the balancer saw, in the forms of expert_load; null: the engine's own"
    )
    file: str | None = Field(
        default=None, description="a physical_to_logical_map, as SGLang's --init-expert-location has it, instead"
    )


class EngineSection(Section):
    """How every engine batches and keeps its KV cache; the defaults are vLLM v1's.

    Its limits are the engine's own settings, so with `data` above 1 they hold for each rank; SGLang's are shared out.
    """

    name: Annotated[str, AfterValidator(check_engine)] = Field(
        default=_ENGINE.name, description="whose kernels measured costs take, as in sglang"
    )
    token_budget: Whole = Field(
        default=_ENGINE.token_budget, ge=1, description="the tokens that a data rank computes in one step, as in 8192"
    )
    max_sequences: Whole = Field(
        default=_ENGINE.max_sequences, ge=1, description="the requests that run at once on a data rank, as in 256"
    )
    block_tokens: Whole = Field(default=_ENGINE.block_tokens, ge=1, description="the tokens of a KV block, as in 16")
    prefix_caching: bool = Field(
        default=_ENGINE.prefix_caching, description="whether finished KV blocks are kept for reuse"
    )
    memory_fraction: float = Field(
        default=_ENGINE.memory_fraction, gt=0, le=1, description="the share of device memory to use, as in 0.9"
    )
    kv_blocks: Whole = Field(
        default=_ENGINE.kv_blocks, ge=0, description="the number of KV blocks, or 0 to derive it from memory"
    )
    reserve_prompt: bool = Field(
        default=_ENGINE.reserve_prompt, description="whether a whole prompt must fit before it is admitted"
    )
    host_kv_gb: float = Field(
        default=_ENGINE.host_kv_bytes / 1e9, ge=0, description="GB of host memory for KV that preemption swaps out"
    )
    swap_launch_us: float = Field(
        default=_ENGINE.swap_launch_s * 1e6,
        ge=0,
        description="microseconds to begin one copy of KV to or from host memory, as in 10",
    )
    max_loras: Whole = Field(
        default=_ENGINE.max_loras,
        ge=0,
        description="the adapters (LoRA) whose requests run at once, as in 8; 0: adapters take neither room nor time",
    )
    max_cpu_loras: Whole = Field(
        default=_ENGINE.max_cpu_loras, ge=0, description="the adapters that host memory holds, 0 for max_loras"
    )
    max_lora_rank: Whole = Field(
        default=_ENGINE.max_lora_rank, ge=1, description="the rank that each slot for an adapter has room for, as in 16"
    )
    lora_disk_gb_s: float = Field(
        default=_ENGINE.lora_disk_bw / 1e9,
        ge=0,
        description="GB/s at which an adapter that is not in host memory is read, 0 for at once",
    )
    cold_s: float = Field(
        default=_ENGINE.cold_s,
        ge=0,
        description="the seconds that the first step takes longer, where the engine starts without warming up",
    )
    first_token: Literal["decode", "prefill"] = Field(
        default=_ENGINE.first_token, description="which side of a prefill/decode pair sends the first token"
    )
    lanes: list[LaneSection] = Field(
        default=[LaneSection()], min_length=1, description="a list of lanes, as in [{name: main}]"
    )
    expert_load: StatedLoad = Field(
        default="measured",
        description="how tokens spread over experts, as in balanced, {zipf: 0.5} or {file: loads.csv}",
    )
    expert_placement: ExpertPlacementSection | None = Field(
        default=None,
        description="a mapping, as in {redundant: 32}; null: experts in order, an equal part on each rank",
    )
    expert_exchange: Literal["recipe", "all_to_all", "gather"] = Field(
        default="recipe",
        description="whether tokens go to their experts' ranks alone or to all; recipe: as the engine's recipes",
    )
    preemption: Literal["recompute", "swap"] = Field(
        default="recompute", description="what becomes of the KV of a preempted request"
    )


class DeviceSection(Section):
    """A device that the catalogue lacks, or a built-in one with other figures: `like` names the base."""

    name: str = Field(description="a name for the device")
    like: str | None = Field(default=None, description="the built-in device that the other figures are taken from")
    bf16_tflops: float | None = Field(default=None, gt=0, description="dense BF16 TFLOP/s")
    fp8_tflops: float | None = Field(default=None, ge=0, description="dense FP8 TFLOP/s, 0 where there are none")
    int8_tops: float | None = Field(default=None, ge=0, description="dense INT8 TOP/s, 0 where there are none")
    fp4_tflops: float | None = Field(default=None, ge=0, description="dense FP4 TFLOP/s, 0 where there are none")
    memory_gb: float | None = Field(default=None, gt=0, description="GB (10^9 bytes) of memory")
    memory_gb_s: float | None = Field(default=None, gt=0, description="GB/s of memory bandwidth")
    scaleup_gb_s: float | None = Field(default=None, ge=0, description="GB/s one way within a scale-up domain")
    scaleup_domain: Whole | None = Field(default=None, ge=1, description="the devices of a scale-up domain")
    host_gb_s: float | None = Field(default=None, ge=0, description="GB/s one way to the host")
    scaleout_gb_s: float | None = Field(default=None, ge=0, description="GB/s one way to other hosts, per device")
    pcie: Fabric | None = Field(
        default=None,
        description="how devices without a scale-up link reach one another: directly, by the host, over sockets",
    )
    tdp_w: float | None = Field(default=None, ge=0, description="watts at full load")


def _described(value: Any) -> str:
    """Which of the two forms of a device `value` has; the tags in brackets are left out of error messages."""
    return "[figures]" if isinstance(value, dict | DeviceSection) else "[name]"


NamedDevice = Annotated[
    Annotated[str, Tag("[name]")] | Annotated[DeviceSection, Tag("[figures]")], Discriminator(_described)
]


class PartsSection(Section):
    """The formats of weights by part; a part that is not named has 16 bits."""

    attention: Format = Field(default="bf16", description="the format of attention's projections")
    output: Format | None = Field(
        default=None, description="the format of the projection out of attention; null for attention's"
    )
    dense: Format = Field(default="bf16", description="the format of dense feed-forward blocks")
    shared: Format = Field(default="bf16", description="the format of shared experts and of the router")
    experts: Format = Field(default="bf16", description="the format of routed experts")
    head: Format = Field(default="bf16", description="the format of the output head")
    embedding: Format = Field(default="bf16", description="the format of the embedding")


Weights = Annotated[
    Annotated[Format, Tag("[format]")] | Annotated[PartsSection, Tag("[parts]")],
    Discriminator(lambda value: "[parts]" if isinstance(value, dict | PartsSection) else "[format]"),
]


class StartupSection(Section):
    """The start-up of a new instance, stage by stage; medians in seconds."""

    provision_s: float = Field(default=0.0, ge=0, description="the seconds until host and devices are there")
    image_s: float = Field(default=0.0, ge=0, description="the seconds until the image is there")
    engine_s: float = Field(default=0.0, ge=0, description="the seconds until the engine runs, without a model")
    weights_s: float | None = Field(
        default=None, ge=0, description="the seconds until the weights are in device memory"
    )
    weights_from: Literal["remote", "disk", "host", "peer"] | None = Field(
        default=None, description="where the weights come from, instead of weights_s"
    )
    weights_gb_s: float | None = Field(
        default=None,
        gt=0,
        description="GB/s at which an instance gets them, or null for its devices' own host or peer link",
    )
    capture_s: float = Field(default=0.0, ge=0, description="the seconds of warm-up and graph capture")
    connect_s: float = Field(default=0.0, ge=0, description="the seconds until links are up and health checks pass")
    sigma: float = Field(
        default=0.0, ge=0, le=5, description="the spread of a start: standard deviation of its logarithm, as in 1.3"
    )


class PoolSection(Section):
    """Equal engine instances."""

    device: NamedDevice = Field(description="an accelerator's name, as in H100 (`poise devices` lists them)")
    replicas: Whole = Field(default=1, ge=1, description="the number of engine instances")
    model: str | None = Field(default=None, description="a model's name (`poise models` lists them) or a config.json")
    tensor: Whole = Field(default=1, ge=1, description="the tensor-parallel degree in devices")
    pipeline: Whole = Field(default=1, ge=1, description="the pipeline-parallel degree in devices")
    expert: Whole = Field(default=1, ge=1, description="the expert-parallel degree in devices")
    data: Whole = Field(default=1, ge=1, description="the data-parallel degree within one instance")
    role: Role = Field(default="mixed", description="what the instances compute")
    weights: Weights = Field(
        default="bf16", description="the format of the weights, or of their parts, as in {experts: mxfp4, head: fp8}"
    )
    kv: Format | None = Field(
        default=None, description="the format of the KV cache; null for what the checkpoint asks for, else bf16"
    )
    price: float | None = Field(default=None, ge=0, description="dollars per device-hour")
    price_basis: str | None = Field(default=None, description="which of the device's listed prices to take")
    name: str = Field(default="", description="a name for the pool")
    engine: EngineSection = Field(
        default=EngineSection(), description="a mapping of engine fields that differ in this pool"
    )
    start_s: float = Field(default=0.0, ge=0, description="the seconds that an instance takes to start")
    startup: StartupSection | None = Field(
        default=None, description="the stages of a start instead of start_s, as in {image_s: 30, weights_from: host}"
    )
    min_replicas: Whole | None = Field(
        default=None, ge=0, description="the fewest instances that a scaler may leave; null: 1 if there is a most"
    )
    max_replicas: Whole | None = Field(
        default=None, ge=1, description="the most instances that a scaler may ask for; null: as many as at the start"
    )
    prewarmed: Whole = Field(
        default=0, ge=0, description="the slots that are kept with all but the weights behind them, for a scaler"
    )
    power_cap_w: float | None = Field(
        default=None, gt=0, description="the watts that each device may draw (nvidia-smi -pl); null for its TDP"
    )
    max_context: Whole | None = Field(
        default=None, ge=1, description="the tokens that its engines allow a request, null for the model's own"
    )
    tenants: list[Whole] = Field(
        default=[], description="the tenants that it serves alone, by number; [] for all that no pool names"
    )
    link_gb_s: float | None = Field(
        default=None,
        gt=0,
        description="GB/s one way per replica of this pool, as at another site; null for the cluster's",
    )


class FaultSection(Section):
    """A fault or another event of a replica."""

    at_s: float = Field(ge=0, description="the second at which it happens")
    kind: FaultKind = Field(description="what happens to the replica")
    replica: Whole = Field(ge=0, description="the replica's number, counted over all pools from 0")
    notice_s: float = Field(default=0.0, ge=0, description="the seconds of notice before a reclaimed replica is gone")
    for_s: float = Field(
        default=0.0,
        ge=0,
        description="the seconds that it is slow, or its devices or its link are lost; 0 for the rest of the run",
    )
    factor: float = Field(
        default=1.0, gt=0, description="how many times as long steps, transfers or the start of a join take, as in 2"
    )
    devices: Whole = Field(default=1, ge=1, description="how many of the replica's devices are lost at once")


class FaultRateSection(Section):
    """Faults that come at random, drawn by the run's seed."""

    kind: Literal["lost", "reclaimed", "slow", "device_lost", "link_slow", "link_lost"] = Field(
        description="what happens to the replica"
    )
    per_hour: float = Field(gt=0, description="the mean number of faults of each replica in an hour, as in 0.1")
    replicas: list[Whole] = Field(default=[], description="the replicas that it happens to; [] for all")
    notice_s: float = Field(default=0.0, ge=0, description="the seconds of notice before a reclaimed replica is gone")
    for_s: float = Field(
        default=0.0, ge=0, description="the seconds that it is slow, or its devices or its link are lost"
    )
    factor: float = Field(default=1.0, gt=0, description="how many times as long steps or transfers take, as in 2")
    back_s: float = Field(
        default=0.0, ge=0, description="the mean seconds until another starts in its place; 0 for never"
    )
    devices: Whole = Field(default=1, ge=1, description="how many of the replica's devices are lost at once")


class EncodersSection(Section):
    """Devices that encode images and audio before prompts reach the pools."""

    device: str = Field(description="an accelerator's name")
    replicas: Whole = Field(default=1, ge=1, description="how many there are, each for a request at a time")
    price: float | None = Field(default=None, ge=0, description="dollars per device-hour")
    link_gb_s: float | None = Field(
        default=None, gt=0, description="GB/s at which one hands embeddings over, or null for the device's own"
    )


class ClusterSection(Section):
    """Pools of replicas and the network between them."""

    pools: list[PoolSection] = Field(min_length=1, description="a list of pools, as in [{device: H100, replicas: 8}]")
    encoders: EncodersSection | None = Field(
        default=None, description="encoders apart from the pools, as in {device: L40S, replicas: 2}; null: pools encode"
    )
    link_gb_s: float | None = Field(
        default=None, gt=0, description="GB/s one way per replica for KV transfers, or null for the device's own"
    )
    link_latency_s: float | None = Field(
        default=None,
        ge=0,
        description="seconds that a KV transfer takes to start; null: 10 µs, or the engine's own by `cost`",
    )
    faults: list[FaultSection] = Field(
        default=[], description="a list of faults, as in [{at_s: 60, kind: lost, replica: 0}]"
    )
    fault_rates: list[FaultRateSection] = Field(
        default=[], description="a list of faults that are drawn, as in [{kind: lost, per_hour: 0.1, back_s: 300}]"
    )


def _given(slot: Slot) -> str:
    """The cure for a slot."""
    text = f"{slot.purpose}, as in {slot.example}"
    if slot.needed:
        return f"{text}; this and all below may be a list to compare"
    many = "; several at once: {all: [ceiling, early_reject]}" if slot.several else ""
    return f"{text}{many}; null: {slot.without}"


def _policies_fields() -> dict[str, Any]:
    """The fields of `PoliciesSection`, one for each slot that a scenario may name."""
    made: dict[str, Any] = {}
    for slot in (SLOTS[name] for name in SCENARIO):
        check = check_routers if slot.needed else check_admissions if slot.several else check_choices
        default = None if slot.name in _SET_ELSEWHERE else slot.default or None
        made[slot.name] = Annotated[Any, AfterValidator(check)], Field(default=default, description=_given(slot))
    return made


_SET_ELSEWHERE = {"preempt"}
"""Slots that null leaves to another section: `engine.preemption` says how the default policy preempts."""


class _Deciding(Section):
    """The policies. Each is NAME, {NAME: {parameter: value}} or package.module:Class, or a list of such to compare.

    Null takes the default. Lists in several slots are compared in all combinations. Admissions that hold at once are
    {all: [A, B]}, for a list of them would be compared.
    """

    if TYPE_CHECKING:

        def __init__(self, **slots: Any) -> None: ...

        def __getattr__(self, slot: str) -> Any: ...


if TYPE_CHECKING:
    PoliciesSection = _Deciding
else:
    PoliciesSection = create_model(
        "PoliciesSection", __base__=_Deciding, __module__=__name__, __doc__=_Deciding.__doc__, **_policies_fields()
    )


class SloSection(Section):
    """The SLO; a request meets it when it meets every part given."""

    ttft_s: float | None = Field(
        default=None, gt=0, description="the longest time to first token in seconds, as in 0.5"
    )
    tpot_s: float | None = Field(
        default=None, gt=0, description="the longest time per output token in seconds, as in 0.05"
    )
    e2e_s: float | None = Field(
        default=None, gt=0, description="the longest time from arrival to end in seconds, as in 30"
    )
    program_s: float | None = Field(
        default=None, gt=0, description="the longest time from a program's first arrival to its last end, as in 60"
    )


class BeliefSection(Section):
    """What the control side knows of its replicas."""

    period_s: float = Field(
        default=_BELIEF.period_s, ge=0, description="the seconds between reports, 0 for always current"
    )
    delay_s: float = Field(default=_BELIEF.delay_s, ge=0, description="the seconds by which reports come late")
    in_flight: bool = Field(default=_BELIEF.in_flight, description="whether own dispatches count at once")
    prefix: Literal["own", "reported", "oracle"] = Field(
        default=_BELIEF.prefix, description="what the control side knows of prefix caches"
    )
    gateways: int = Field(
        default=_BELIEF.gateways,
        ge=1,
        le=1000,
        description="how many gateways share the requests, each on a belief of its own",
    )
    share_s: float | None = Field(
        default=_BELIEF.share_s,
        ge=0,
        description="the seconds after which gateways have one another's news, null where they share none, as in 0.01",
    )


MOST_SEEDS = 1_000_000


def check_seeds(value: Any) -> list[int]:
    """Seeds as a list: a count N means 0 to N − 1."""
    value = whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"{value} seeds are none; give how many there are, as in 5, or a list of them, as in [7]")
        if value > MOST_SEEDS:
            raise ValueError(f"{value} seeds are more than the {MOST_SEEDS:,} that one run takes; give at most so many")
        return list(range(value))
    seeds = [whole(each) for each in value] if isinstance(value, list) else None
    if not seeds or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in seeds):
        raise ValueError(
            f"{value!r} is not a valid choice of seeds; give their number, as in 5, or a list, as in [3, 7]"
        )
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{value!r} names a seed twice; give each seed once")
    return seeds


class RunSection(Section):
    """How often and how long."""

    seeds: Annotated[Any, BeforeValidator(check_seeds)] = Field(
        default=[0], description="how many seeds, or a list of them"
    )
    warmup_s: float = Field(default=0.0, ge=0, description="the seconds at the start that are left out of the figures")
    until_s: float | None = Field(
        default=None, gt=0, description="the second after which no request arrives, or null for no limit"
    )
    drain: bool = Field(default=True, description="whether what has arrived by until_s is served to its end")


class CompareSection(Section):
    """The settings of `poise compare` besides the policies; other commands ignore them."""

    loads: list[Annotated[float, Field(gt=0)]] = Field(
        default=[1.0], min_length=1, description="factors on the workload's rate, as in [0.5, 1, 2]"
    )
    by: str | None = Field(
        default=None, description="the figure that decides, as in ttft_s.p99; null: slo_attainment or e2e_s.mean"
    )
    target: float = Field(
        default=0.9, gt=0, le=1, description="the share of arrivals that must meet the SLO of a load that is carried"
    )


class FittedSection(Section):
    """A step cost that was fitted to a recording, in place of the roofline."""

    fitted: str = Field(description="a file that `poise calibrate` wrote, instead of efficiencies")


class MeasuredSection(Section):
    """Measured operators, in place of the roofline."""

    measured: dict[str, Annotated[float, Field(ge=0)]] = Field(
        description="efficiencies of what the tables lack, as in {cpu_step_s: 0.001}"
    )
    tables: str | None = Field(
        default=None, description="a file that `poise calibrate --profiles` wrote; null: the one that ships"
    )


class SpeculativeSection(Section):
    """Speculative decoding, by vLLM's names."""

    method: Method = Field(default="mtp", description="what proposes tokens")
    num_speculative_tokens: int = Field(ge=1, le=32, description="the tokens that are proposed in each pass, as in 3")
    model: str | None = Field(
        default=None, description="the draft model or head, by name; null for the model's own head"
    )
    acceptance: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="chance that a draft is kept, all before it being kept; null for what was measured of the family",
    )
    verified_tokens: int = Field(
        default=0, ge=0, le=256, description="the tokens that a pass verifies where drafts are a tree; 0 for one more"
    )


class EngineCostSection(Section):
    """Measured operators under an engine's own host times, as `poise validate` scores them."""

    engine: str = Field(description="an engine, as in vllm, sglang or tensorrt-llm")
    version: str = Field(default="", description='its version, as in "0.14", or nothing for the newest')
    tables: str | None = Field(
        default=None, description="a file that `poise calibrate --profiles` wrote; null: the one that ships"
    )
    speculative: Annotated[SpeculativeSection, BeforeValidator(flags)] | None = Field(
        default=None,
        description="speculative decoding, as in {method: eagle3, num_speculative_tokens: 3}; also by SGLang's flags",
    )
    drafts: int = Field(
        default=0, ge=0, le=16, description="short for speculative: so many drafts of the model's own head (MTP)"
    )
    acceptance: float | None = Field(
        default=None, ge=0, lt=1, description="chance that a draft is kept, all before it being kept; null: as measured"
    )


def _named(value: Any) -> Any:
    """A cost by its name alone, with all its defaults."""
    return {"measured": {"measured": {}}, "roofline": {}}.get(value, value) if isinstance(value, str) else value


def _costed(value: Any) -> str:
    """Which of the forms of a cost `value` has."""
    for kind, name in _FORMS:
        if isinstance(value, kind) or (isinstance(value, dict) and name in value):
            return f"[{name}]"
    return "[roofline]"


BareCost = Annotated[
    Annotated[dict[str, Annotated[float, Field(ge=0)]], Tag("[roofline]")]
    | Annotated[FittedSection, Tag("[fitted]")]
    | Annotated[MeasuredSection, Tag("[measured]")]
    | Annotated[EngineCostSection, Tag("[engine]")],
    Discriminator(_costed),
    BeforeValidator(_named),
]


class TermsSection(Section):
    """Systems that change what a step costs, around another cost."""

    terms: Annotated[Any, AfterValidator(check_terms)] = Field(
        description="a term or a list of them, the innermost first, as in nanoflow or [token_weave, "
        "{introspective_diffusion: {stride: 8}}]"
    )
    of: BareCost = Field(default={}, description="the cost that they change, as in measured or {engine: vllm}")


_FORMS = (
    (TermsSection, "terms"),
    (FittedSection, "fitted"),
    (MeasuredSection, "measured"),
    (EngineCostSection, "engine"),
)

Cost = Annotated[
    Annotated[BareCost, Tag("[bare]")] | Annotated[TermsSection, Tag("[terms]")],
    Discriminator(lambda value: "[terms]" if _costed(value) == "[terms]" else "[bare]"),
]


class Scenario(Section):
    """The whole file."""

    model: str | None = Field(default=None, description="the model of pools that name none, as in llama-3.1-8b")
    cluster: ClusterSection = Field(description="a section cluster, as in {pools: [{device: H100, replicas: 8}]}")
    workload: WorkloadSection = Field(description="a section workload, as in {trace: FILE} or {poisson: {rate: 10, …}}")
    policies: PoliciesSection = Field(
        default=PoliciesSection(), description="a section policies, as in {router: prefix_cache}"
    )
    engine: EngineSection = Field(default=EngineSection(), description="a section engine, as in {token_budget: 8192}")
    slo: SloSection = Field(default=SloSection(), description="a section slo, as in {ttft_s: 0.5, tpot_s: 0.05}")
    belief: BeliefSection = Field(default=BeliefSection(), description="a section belief, as in {period_s: 1}")
    run: RunSection = Field(default=RunSection(), description="a section run, as in {seeds: 5, warmup_s: 30}")
    compare: CompareSection = Field(
        default=CompareSection(), description="a section compare, as in {loads: [0.5, 1, 2]}"
    )
    cost: Cost = Field(
        default={},
        description="the roofline's efficiencies, as in {gemm_bf16: 0.7}, measured, {engine: vllm}, {fitted: FILE} or "
        "{terms: nanoflow}",
    )
    provenance: dict[str, Any] | None = Field(
        default=None, description="nothing: Poise writes it into resolved scenarios and does not read it"
    )
