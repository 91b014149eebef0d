"""The section `workload`: one source of requests, and its modifications."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from poise.core.errors import ScenarioError
from poise.scenario.section import Section, Whole
from poise.workload.lanes import DURATION_S, GRACE_S, IDLE_S, START, TREE_IDLE_S
from poise.workload.lengths import length

SOURCES = (
    "trace",
    "poisson",
    "gamma",
    "diurnal",
    "on_off",
    "phases",
    "burstgpt",
    "servegen",
    "constant",
    "closed",
    "all_at_once",
)
"""The keys of which `workload` has exactly one."""

TRACE_ONLY = (
    *("format", "columns", "limit", "skip_bad", "block_tokens", "scale", "squeeze", "ignore_model"),
    *("lanes", "max_context", "open_loop"),
)
"""The keys that only a trace takes; `skip_bad` and `ignore_model` also concern what other sources read."""

LANES_ONLY = ("duration_s", "grace_s", "start", "primers", "idle_cap_s", "tree_idle_cap_s", "gap_cap_s")
"""The keys that only a trace of conversations in lanes takes."""


def check_spec(value: Any) -> Any:
    """`value` itself when it is a number or a distribution; ValueError with what is wrong with it."""
    try:
        length(value, "it")
    except ScenarioError as error:
        raise ValueError(str(error).removeprefix("it: ").removeprefix("it is ")) from None
    return value


def check_tokens(value: Any) -> Any:
    """The same for tokens, of which there is at least one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 1:
        raise ValueError(
            f"{value} must be at least 1; give a number of tokens, or {{lognormal: {{mean: 800, cv: 0.9}}}}"
        )
    return check_spec(value)


def check_scale(value: Any) -> Any:
    """A factor as a float, or a mapping with a rate as it is."""
    rate = value["rate"] if isinstance(value, dict) and list(value) == ["rate"] else value
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise ValueError(f"{value!r} is not a scale; give a factor, as in 1.5, or {{rate: 12}} for requests per second")
    if rate <= 0:
        raise ValueError(f"{rate!r} must be above 0; give a factor, as in 1.5, or {{rate: 12}} for requests per second")
    return value if isinstance(value, dict) else float(value)


def check_number(value: Any) -> Any:
    """The same for what is counted from 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 1:
        raise ValueError(f"{value} must be at least 1; give a whole number, or {{uniform: {{low: 2, high: 5}}}}")
    return check_spec(value)


def check_rank(value: Any) -> Any:
    """A rank, or a list of ranks."""
    ranks = value if isinstance(value, list) else [value]
    if not ranks or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 1 for each in ranks):
        raise ValueError(f"{value!r} is not a rank; give a whole number, as in 16, or a list, as in [8, 64]")
    return value


Spec = Annotated[Any, AfterValidator(check_spec)]
Number = Annotated[Any, AfterValidator(check_number)]
Tokens = Annotated[Any, AfterValidator(check_tokens)]


class Generated(Section):
    """What every generator takes; null lengths are the generator's own (512 and 128 tokens)."""

    prompt_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 1000")
    output_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 200")
    max_tokens: Whole | None = Field(default=None, ge=1, description="the client's limit of output tokens")
    lengths: str | None = Field(default=None, description="a trace whose pairs of lengths are drawn")


class PoissonSection(Generated):
    """Poisson arrivals."""

    rate: float = Field(gt=0, description="requests per second, as in 10")
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")


class GammaSection(PoissonSection):
    """Arrivals with Gamma gaps."""

    cv: float = Field(ge=0, description="the coefficient of variation of the gaps, 1 for Poisson")


class SpikeSection(Section):
    """A stretch of time with another rate."""

    at_s: float = Field(ge=0, description="the second of the profile at which it begins")
    lasting_s: float = Field(gt=0, description="the seconds that it lasts")
    factor: float = Field(ge=0, description="what the rate is multiplied by meanwhile, as in 10")


class DiurnalSection(Generated):
    """Arrivals whose rate follows a profile, given by points or by counts."""

    points: list[list[float]] | None = Field(
        default=None, description="pairs of second and requests per second, as in [[0, 2], [43200, 20], [86400, 2]]"
    )
    counts: str | None = Field(default=None, description="a file of counts over time, in place of points")
    begin_s: float = Field(default=0.0, ge=0, description="the second of that file at which the profile begins")
    lasting_s: float | None = Field(default=None, gt=0, description="the seconds of that file to take, null for all")
    rate: float | None = Field(default=None, gt=0, description="requests per second that the mean is scaled to")
    cv: float = Field(default=1.0, ge=0, description="the coefficient of variation of the gaps, 1 for Poisson")
    repeat: bool = Field(default=False, description="whether the profile comes again when it ends")
    spikes: list[SpikeSection] = Field(
        default=[], description="a list of spikes, as in [{at_s: 600, lasting_s: 30, factor: 10}]"
    )
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")


class OnOffSection(Generated):
    """Arrivals at two rates by turns."""

    rate_on: float = Field(gt=0, description="requests per second while on, as in 50")
    rate_off: float = Field(default=0.0, ge=0, description="requests per second while off")
    on_s: Spec = Field(description="the seconds that on lasts, a number or a distribution, as in 10")
    off_s: Spec = Field(description="the seconds that off lasts, a number or a distribution, as in 60")
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")


class PhaseSection(Section):
    """A stretch of time with a rate and lengths of its own."""

    rate: float = Field(gt=0, description="requests per second, as in 10")
    duration_s: float = Field(gt=0, description="the seconds that it lasts, as in 300")
    cv: float = Field(default=1.0, ge=0, description="the coefficient of variation of the gaps, 1 for Poisson")
    prompt_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 1000")
    output_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 200")


class BurstgptSection(Generated):
    """Arrivals as in BurstGPT: a day's wave, hours that differ far more than it, and bursts within them."""

    rate: float = Field(gt=0, description="requests per second in the mean of many days, as in 10")
    cv: float = Field(default=2.0, ge=0, description="the coefficient of variation of the gaps, 1 for Poisson")
    spread: float = Field(
        default=1.4, ge=0, description="the standard deviation of the logarithm of an hour's rate, 0 for equal days"
    )
    memory: float = Field(default=0.67, ge=0, lt=1, description="the correlation of an hour with the one before")
    gpt4: float = Field(default=0.25, ge=0, le=1, description="the part of requests with GPT-4's lengths, tenant 1")
    failures: float = Field(default=0.0178, ge=0, le=1, description="the share of requests that fail")
    begin_s: float = Field(default=0.0, ge=0, description="the second of the day at which to begin")
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")


class ServegenSection(Section):
    """Client by client from ServeGen's tables; clients are tenants."""

    arrivals: str = Field(description="the file of clients' rates, as in m-large_arrivals.parquet")
    lengths: str | None = Field(default=None, description="the file of clients' lengths, null for the one beside")
    begin_s: float = Field(default=0.0, ge=0, description="the second of the record at which to begin")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    rate: float | None = Field(default=None, gt=0, description="requests per second, null for the recorded rate")
    top: Whole | None = Field(default=None, ge=1, description="how many of the busiest clients to take, null for all")
    unmeasured: Literal["drop", "pool"] = Field(
        default="drop", description="what becomes of clients without lengths, left out or with those of others"
    )
    max_tokens: Whole | None = Field(default=None, ge=1, description="the client's limit of output tokens")


class ConstantSection(Generated):
    """One request after each gap."""

    gap_s: float = Field(gt=0, description="the seconds between two requests")
    requests: Whole | None = Field(default=None, ge=1, description="the number of requests, as in 10000")
    duration_s: float | None = Field(default=None, gt=0, description="the seconds during which requests arrive")


class ClosedSection(Generated):
    """A closed load."""

    concurrency: Whole = Field(ge=1, description="the requests in the system at any time, as in 64")
    requests: Whole = Field(ge=1, description="the number of requests, as in 10000")


class AllAtOnceSection(Generated):
    """An offline batch."""

    requests: Whole = Field(ge=1, description="the number of requests, as in 10000")


class SharedPrefixesSection(Section):
    """Prefixes that are put before the prompts."""

    groups: Whole = Field(ge=1, description="the number of different prefixes, as in 50")
    prefix_tokens: Tokens = Field(description="the tokens of a prefix, a number or a distribution, as in 1000")
    zipf: float = Field(default=1.0, ge=0, description="how uneven the groups are, 0 for alike")
    depth: Whole = Field(default=1, ge=1, description="the levels of the tree of prefixes")
    tenants: Whole = Field(default=0, ge=0, description="how many tenants have the prefixes by turns, 0 for none")


class SessionsSection(Section):
    """Conversations of which each request of the source is the first turn."""

    turns: Tokens = Field(default=4, description="the requests of a session, a number or a distribution")
    think_s: Spec = Field(default=10.0, description="the seconds between an answer and the next question")
    user_tokens: Tokens = Field(default=64, description="the tokens that the user adds each turn")
    output_tokens: Tokens | None = Field(
        default=None, description="the lengths of later answers, null for those of the source"
    )
    max_context: Whole | None = Field(default=None, ge=1, description="the tokens after which a session ends")
    tool: str | None = Field(
        default=None, description="a tool that every answer but the last calls, for policies that go by tools"
    )
    hung: float = Field(default=0.0, ge=0, le=1, description="the share of calls of the tool that hang, as in 0.01")
    hung_s: Spec = Field(default=300, description="the seconds of a call that hangs, a number or a distribution")


class ClassSection(Section):
    """One class of requests; what it leaves out is that of the source."""

    share: float = Field(default=1.0, gt=0, description="its share of the requests, beside those of other classes")
    prompt_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 1000")
    output_tokens: Tokens | None = Field(default=None, description="a number or a distribution, as in 200")
    deadline_s: float | None = Field(
        default=None, gt=0, description="the seconds after arrival by which its requests are due"
    )
    timeout_s: float | None = Field(default=None, gt=0, description="the seconds after which its clients leave")
    priority: Whole | None = Field(default=None, ge=-(2**15), le=2**15 - 1, description="a number, lower goes first")
    tenant: Whole | None = Field(default=None, ge=0, description="its tenant, null for its place among the classes")


class ShiftSection(Section):
    """Lengths that change on the way."""

    after: float = Field(default=0.5, ge=0, le=1, description="the share of the requests after which they change")
    prompt: float = Field(default=1.0, gt=0, description="how many times as long prompts are then, as in 0.5")
    output: float = Field(default=1.0, gt=0, description="how many times as long outputs are then, as in 2")


class CutSection(Section):
    """The most tokens of a request."""

    prompt_tokens: Whole | None = Field(default=None, ge=1, description="where longer prompts end, as in 20480")
    output_tokens: Whole | None = Field(default=None, ge=1, description="where longer outputs end, as in 1")


Formats = Literal[
    "auto", "generic", "azure", "burstgpt", "mooncake", "agent_prefixes", "agent_sessions", "agent_steps", "litellm",
    "langfuse", "openai", "vllm", "weka",
]  # fmt: skip


class RecordedSessionsSection(Section):
    """Recorded sessions, of which each request of the source begins one."""

    trace: str = Field(description="the path of a trace with sessions, beside the scenario file or absolute")
    think_s: Spec | None = Field(
        default=None, description="the seconds between an answer and the next request, null for the recorded ones"
    )
    format: Formats = Field(default="auto", description="the format of the trace")
    columns: dict[str, str] = Field(
        default={}, description="which columns hold which fields, as in {arrival_s: created at}"
    )
    limit: Whole | None = Field(default=None, ge=1, description="how many rows to read at most")
    block_tokens: Whole | None = Field(
        default=None, ge=1, description="the prompt tokens that one of hash_ids covers, null for the format's own"
    )


class AdaptersSection(Section):
    """Adapters (LoRA) that the requests name."""

    count: Whole = Field(
        default=0, ge=0, description="the number of adapters, as in 50; 0 for those that the trace names"
    )
    rank: Annotated[Any, AfterValidator(check_rank)] = Field(
        default=16, description="the rank of all adapters, as in 16, or a list that they have by turns, as in [8, 64]"
    )
    zipf: float = Field(default=1.0, ge=0, description="how uneven their popularity is, 0 for alike")
    share: float = Field(default=1.0, gt=0, le=1, description="the share of the requests that name an adapter")


class MediaSection(Section):
    """Images and audio that come with requests."""

    images: Annotated[Any, AfterValidator(check_spec)] = Field(
        default=0, description="the images of a request: a number, or {uniform: {low: 0, high: 3}}"
    )
    size: list[Whole] = Field(
        default=[1024, 1024], min_length=2, max_length=2, description="width and height of each image, in pixels"
    )
    audio_s: Annotated[Any, AfterValidator(check_spec)] = Field(
        default=0, description="the seconds of audio of a request, in the same format"
    )
    share: float = Field(default=1.0, gt=0, le=1, description="the share of the requests that bring any")


def check_names(value: Any) -> Any:
    """One name as a list of it."""
    return [value] if isinstance(value, str) else value


class TextSection(Section):
    """The possible beginnings of a workflow's prompts."""

    tokens: Tokens = Field(description="its tokens, a number or a distribution, as in 1500")
    own: bool = Field(default=False, description="whether each program has its own, instead of one for all")


class TaskSection(Section):
    """A request (with tokens), a tool (with seconds) or a join (with neither) of a workflow."""

    after: Annotated[list[str], BeforeValidator(check_names)] = Field(
        default=[], description="the tasks it waits for, as in plan or [plan, search]"
    )
    each: str | None = Field(
        default=None, description="a task of which each copy is followed by one of this, as in search"
    )
    count: Number | None = Field(
        default=None, description="how many run side by side, a number or a distribution, null for one"
    )
    prompt_tokens: Tokens | None = Field(default=None, description="tokens behind what the prompt begins with")
    output_tokens: Tokens | None = Field(default=None, description="tokens of the answer")
    seconds: Spec | None = Field(default=None, description="how long a tool takes, a number or a distribution")
    begins_with: str | None = Field(
        default=None, description="a text, or an earlier request whose prompt and answer begin this prompt"
    )
    flow: str | None = Field(default=None, description="one of flows, whose tasks are those of this part")
    rounds: Whole | None = Field(default=None, ge=1, description="of a flow: how often it runs in a row")


class WorkflowSection(Section):
    """A task graph, of which each program has a draw of its own."""

    tasks: dict[str, TaskSection] = Field(description="tasks by name, as in {plan: {prompt_tokens: 500, …}}")
    texts: dict[str, TextSection] = Field(default={}, description="texts by name, as in {system: {tokens: 1500}}")
    share: float = Field(default=1.0, gt=0, description="its share of the programs, beside those of other workflows")


class OrchestrationSection(Section):
    """How programs are run: how many at once, and what decides on their next requests."""

    way: Literal["central", "batch", "rows"] = Field(
        default="rows", description="central: one loop, step by step; batch: so many together; rows: each for itself"
    )
    in_flight: Whole = Field(default=100, ge=1, description="programs under way at once")
    step_s: float = Field(default=0.005, ge=0, description="seconds of orchestration for each answer")


class SharedStateSection(Section):
    """Teams of agents on shared state, of which each request of the source begins one."""

    way: Literal["ori", "version", "overwrite", "locks"] = Field(
        default="ori", description="what a commit is refused for: old reads, an old version, nothing; or locks instead"
    )
    agents: Whole = Field(default=8, ge=1, description="agents of a team")
    steps: Whole = Field(default=10, ge=1, description="steps of an agent, each a request and a commit")
    shards: Whole = Field(default=1, ge=1, description="shards of a team; agent i writes shard i modulo that")
    reads: Whole = Field(default=0, ge=0, description="other shards that a step reads")
    retries: Whole = Field(default=5, ge=0, description="requests and commits more, after a refused one")
    post_s: Spec = Field(default=0, description="seconds from an answer to its commit, a number or a distribution")
    check_s: float = Field(default=5e-6, ge=0, description="seconds from the check of what was read to the write")
    prompt_tokens: Tokens = Field(default=1000, description="a number or a distribution, as in 1000")
    output_tokens: Tokens = Field(default=150, description="a number or a distribution, as in 150")


class AovSection(Section):
    """Workflows that a model drafts and refines, of which each request of the source begins one."""

    way: Literal["none", "barrier", "merge"] = Field(
        default="barrier", description="none: never refined; barrier: when all subtasks stand still; merge: meanwhile"
    )
    choose: Literal["chain", "first", "score", "shortest"] = Field(
        default="score", description="what runs: a chain, any draft, the most modular one, or that of the shortest way"
    )
    tasks: Whole = Field(default=12, ge=1, description="subtasks of a workflow")
    candidates: Whole = Field(default=10, ge=1, description="drafts to choose from")
    every: Whole = Field(default=3, ge=1, description="subtasks that end before a refinement")
    most: Whole = Field(default=5, ge=0, description="refinements of a workflow at most")
    failing: float = Field(default=0.1, ge=0, lt=1, description="the share of answers that are wrong, as in 0.1")
    prompt_tokens: Tokens = Field(default=1500, description="a number or a distribution, as in 1500")
    output_tokens: Tokens = Field(default=400, description="a number or a distribution, as in 400")


class WorkloadSection(Section):
    """One of the sources in `SOURCES`, with its options."""

    trace: str | None = Field(default=None, description="the path of a trace, beside the scenario file or absolute")
    poisson: PoissonSection | None = Field(default=None, description="a mapping, as in {rate: 10, requests: 10000}")
    gamma: GammaSection | None = Field(default=None, description="a mapping, as in {rate: 10, cv: 2, requests: 10000}")
    diurnal: DiurnalSection | None = Field(default=None, description="a mapping, as in {points: [[0, 2], [600, 20]]}")
    on_off: OnOffSection | None = Field(
        default=None, description="a mapping, as in {rate_on: 50, on_s: 10, off_s: 60, requests: 10000}"
    )
    phases: list[PhaseSection] | None = Field(
        default=None, min_length=1, description="a list of phases, as in [{rate: 15, duration_s: 300}]"
    )
    burstgpt: BurstgptSection | None = Field(default=None, description="a mapping, as in {rate: 10, duration_s: 86400}")
    servegen: ServegenSection | None = Field(
        default=None, description="a mapping, as in {arrivals: m-large_arrivals.parquet, duration_s: 600}"
    )
    constant: ConstantSection | None = Field(default=None, description="a mapping, as in {gap_s: 0.1, requests: 10000}")
    closed: ClosedSection | None = Field(
        default=None, description="a mapping, as in {concurrency: 64, requests: 10000}"
    )
    all_at_once: AllAtOnceSection | None = Field(default=None, description="a mapping, as in {requests: 10000}")

    format: Formats = Field(default="auto", description="the format of the trace")
    columns: dict[str, str] = Field(
        default={}, description="which columns hold which fields, as in {arrival_s: created at}"
    )
    limit: Whole | None = Field(default=None, ge=1, description="how many rows to read at most")
    skip_bad: bool = Field(default=False, description="whether bad rows are counted and passed over")
    block_tokens: Whole | None = Field(
        default=None, ge=1, description="the prompt tokens that one of hash_ids covers, null for the format's own"
    )
    scale: Annotated[Any, AfterValidator(check_scale)] = Field(
        default=1.0, description="a factor of the trace's rate, as in 1.5, or the rate to reach, as in {rate: 12}"
    )
    squeeze: bool = Field(
        default=False, description="whether scaling squeezes the stamps instead of changing the crowd"
    )
    ignore_model: bool = Field(default=False, description="whether the trace's model column is ignored")

    lanes: Whole | None = Field(
        default=None, ge=1, description="conversations under way at any time, of a trace with sessions, as in 16"
    )
    duration_s: float = Field(
        default=DURATION_S, gt=0, description="of lanes: the seconds in which requests arrive, as in 3600"
    )
    grace_s: float = Field(default=GRACE_S, ge=0, description="of lanes: the seconds that answers then still have")
    start: list[float] = Field(
        default=list(START),
        description="of lanes: the shares of its time between which the first conversation of each lane begins",
    )
    primers: bool = Field(
        default=True, description="of lanes: whether prompts of one output token fill the caches before, uncounted"
    )
    idle_cap_s: float = Field(
        default=IDLE_S, gt=0, description="of lanes: the seconds for which nothing is under way at most"
    )
    tree_idle_cap_s: float = Field(
        default=TREE_IDLE_S, gt=0, description="of lanes: the seconds for which nothing of a conversation is, at most"
    )
    gap_cap_s: float | None = Field(
        default=None, gt=0, description="of lanes: a cap on each recorded gap between answer and request, null for none"
    )
    max_context: Whole | None = Field(
        default=None,
        ge=1,
        description="of lanes: tokens above which a conversation is left out, null for what the replicas hold",
    )
    open_loop: bool = Field(
        default=False, description="whether requests of sessions arrive by their recorded stamps, whoever has ended"
    )

    classes: dict[str, ClassSection] | None = Field(
        default=None, description="classes of requests by name, as in {chat: {share: 0.7, prompt_tokens: 500}}"
    )
    shift: ShiftSection | None = Field(
        default=None, description="a mapping, as in {after: 0.5, prompt: 0.5, output: 2}, for lengths that change"
    )
    cut: CutSection | None = Field(
        default=None, description="a mapping, as in {prompt_tokens: 20480}, where longer requests are cut"
    )
    shared_prefixes: SharedPrefixesSection | None = Field(
        default=None, description="a mapping, as in {groups: 50, prefix_tokens: 1000}"
    )
    sessions: SessionsSection | None = Field(default=None, description="a mapping, as in {turns: 4, think_s: 10}")
    media: MediaSection | None = Field(
        default=None, description="images and audio of requests, as in {images: 1, size: [1024, 1024], share: 0.5}"
    )
    adapters: AdaptersSection | None = Field(
        default=None, description="a mapping, as in {count: 50, rank: 16}, for requests that name adapters (LoRA)"
    )

    recorded_sessions: RecordedSessionsSection | None = Field(
        default=None, description="a mapping, as in {trace: sessions.csv, think_s: 10}"
    )

    flows: dict[str, dict[str, TaskSection]] | None = Field(
        default=None,
        description="tasks by the name of a flow, which workflows have as parts, as in {coder: {write: …}}",
    )
    workflows: dict[str, WorkflowSection] | None = Field(
        default=None, description="workflows by name, as in {agent: {tasks: …}}, of which each request begins one"
    )

    shared_state: SharedStateSection | None = Field(
        default=None,
        description="a mapping, as in {agents: 8, shards: 2, reads: 1}: each request begins a team",
    )
    aov: AovSection | None = Field(
        default=None, description="a mapping, as in {tasks: 12, way: barrier}: each request begins a workflow"
    )
    orchestration: OrchestrationSection | None = Field(
        default=None, description="a mapping, as in {way: central, in_flight: 100}, for workflows or sessions"
    )

    timeout_s: float | None = Field(default=None, gt=0, description="the seconds after which a client leaves")
    deadline_s: float | None = Field(
        default=None, gt=0, description="the seconds after arrival by which a request is due"
    )
    retry: Whole | None = Field(default=None, ge=0, description="how often a refused or lost request is sent again")
    priority: Whole | None = Field(default=None, ge=-(2**15), le=2**15 - 1, description="a number, lower goes first")
