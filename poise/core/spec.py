"""The description of a cluster: devices, links, pools of replicas, engines and SLOs. All frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Literal, NamedTuple

from poise.core.experts import ExpertLoad, Placement
from poise.core.model import Model
from poise.core.precision import BITS as BITS
from poise.core.precision import Format as Format
from poise.core.precision import Precision, uniform

Role = Literal["mixed", "prefill", "decode"]


Fabric = Literal["direct", "host", "sockets"]
"""Paths over PCIe: from device to device, through the host's memory, or over several processor sockets."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, from its datasheet: dense peaks in FLOP/s, memory in bytes, bandwidths in bytes/s one way.

    A peak of 0 means that the format has no native path. `price_per_hour` is dollars on `price_basis`.
    pcie: how devices of a host without a scale-up link reach one another; "" takes what such devices mostly do.
    """

    name: str
    vendor: str
    bf16_flops: float
    memory_bytes: int
    memory_bw: float
    fp8_flops: float = 0.0
    int8_ops: float = 0.0
    fp4_flops: float = 0.0
    scaleup_bw: float = 0.0
    scaleup_domain: int = 1
    host_bw: float = 0.0
    scaleout_bw: float = 0.0
    tdp_w: float = 0.0
    price_per_hour: float = 0.0
    price_basis: str = ""
    source: str = ""
    pcie: Fabric | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One stream of steps on a replica's device; lanes of a replica share it by their `share` of its SMs.

    Shares may add up to more than 1: steps that run side by side then divide the SMs by their shares, and one that runs
    alone has its own.  borrows: a step that begins while no other lane has work takes all SMs, as where an engine sizes
    its lanes anew before each step; one that begins later divides them with it.
    """

    name: str = "main"
    prefill: bool = True
    decode: bool = True
    share: float = 1.0
    borrows: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """How one engine instance batches and keeps its KV cache; the defaults are vLLM v1's.

    token_budget: tokens computed in one step (`max_num_batched_tokens`).
    max_sequences: requests running at once (`max_num_seqs`).
    rank_budget: tokens of one prompt in a step at most, where each data rank has a budget of its own; 0: no such cap.
    block_tokens: tokens per KV block.
    prefix_caching: keep finished blocks until they are needed, least recently used first.
    memory_fraction: share of device memory given to weights, activations and KV (`gpu_memory_utilization`).
    kv_blocks: the number of KV blocks, where it is known; 0 derives it from memory.
    reserve_prompt: admit a request only when its whole prompt fits, not only its first chunk.
    host_kv_bytes: host memory for KV that preemption swaps out.
    swap_launch_s: what it takes to begin one copy to or from host memory, besides its bytes.
    cold_s: what the first step of each lane takes longer where an engine starts without warming up: kernels are
    compiled and tuned, and graphs captured, while the first requests wait.
    first_token: which side of a prefill/decode pair sends the first token to the client.
    max_loras: adapters (LoRA) whose requests run at once, and that device memory has room for; 0: adapters take neither
    room nor time.  max_cpu_loras: adapters that host memory has room for, at least `max_loras` (0: as many).
    max_lora_rank: the rank that each slot on the device has room for.
    lora_disk_bw: bytes/s at which an adapter that is not in host memory is read; 0: reading takes no time.
    expert_load: how popular the routed experts are.  expert_placement: the ranks that hold each.
    expert_exchange: whether tokens of data ranks go to the ranks of their experts alone (`all_to_all`; DeepEP, say)
    or to all ranks (`gather`); `recipe` is what published recipes of the engine configure.
    """

    name: str = "vllm"
    version: str = "v1"
    token_budget: int = 8192
    max_sequences: int = 256
    block_tokens: int = 16
    prefix_caching: bool = True
    memory_fraction: float = 0.9
    kv_blocks: int = 0
    reserve_prompt: bool = True
    host_kv_bytes: int = 0
    swap_launch_s: float = 0.0
    cold_s: float = 0.0
    first_token: Literal["decode", "prefill"] = "decode"
    lanes: tuple[Lane, ...] = (Lane(),)
    max_loras: int = 0
    max_cpu_loras: int = 0
    max_lora_rank: int = 16
    lora_disk_bw: float = 0.0
    rank_budget: int = 0
    expert_load: ExpertLoad = field(default_factory=ExpertLoad)
    expert_placement: Placement = ()
    expert_exchange: Literal["recipe", "all_to_all", "gather"] = "recipe"


@dataclass(frozen=True, slots=True)
class Startup:
    """The start-up of a replica: consecutive stages, in seconds.

    provision_s: until its devices and its host are there.  image_s: until its image is.  engine_s: until the engine's
    process runs, without a model.  weights_s: until the weights are in device memory.  capture_s: warm-up, with CUDA
    graphs.  connect_s: until its links to the others are up and it has reported healthy.
    A pre-warmed slot has the first three behind it, and so has a replica that takes another role.
    sigma: a start takes all its stages times exp(sigma·z), z standard normal; so the seconds given are medians.
    """

    provision_s: float = 0.0
    image_s: float = 0.0
    engine_s: float = 0.0
    weights_s: float = 0.0
    capture_s: float = 0.0
    connect_s: float = 0.0
    sigma: float = 0.0

    @property
    def warming_s(self) -> float:
        """Median seconds until a slot is pre-warmed."""
        return self.provision_s + self.image_s + self.engine_s

    @property
    def loading_s(self) -> float:
        """Median seconds from there until it serves."""
        return self.weights_s + self.capture_s + self.connect_s


@dataclass(frozen=True, slots=True)
class Pool:
    """`replicas` equal engine instances: the devices of one instance are tensor × pipeline × data.

    start_s, or startup: how long a new one takes to serve.  Where a scaler decides, there are `replicas` at the start
    and `min_replicas` to `max_replicas` later (both None: always as many), and `prewarmed` slots besides.
    engine: its limits are those of a whole replica, over all data ranks (`poise.catalogue.engines.on_ranks`).
    weights: their format in one word, which means the model's published checkpoint of that format, else all matrices of
    the layers (`precision`).  parts: the formats part by part instead, of which `weights` is then the narrowest.
    power_cap_w: watts that each device may draw; 0 where no cap is known but the TDP.
    tenants: whose requests it serves, and no others; they go nowhere else.  (): those of tenants that no pool names.
    link_bw: bytes/s one way of each replica's link, where it is not the cluster's, as at another site; 0: as `Cluster`.
    """

    model: Model
    device: Device
    replicas: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    role: Role = "mixed"
    weights: Format = "bf16"
    kv: Format = "bf16"
    price_per_hour: float | None = None
    name: str = ""
    engine: Engine = field(default_factory=Engine)
    start_s: float = 0.0
    startup: Startup | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    prewarmed: int = 0
    power_cap_w: float = 0.0
    tenants: tuple[int, ...] = ()
    link_bw: float = 0.0
    parts: Precision | None = None

    @property
    def precision(self) -> Precision:
        """The formats of its weights by part."""
        if self.parts is not None:
            return self.parts
        published = dict(self.model.checkpoints).get(self.weights)
        return published or uniform(self.weights, latent=self.model.mla is not None)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights once; norms and the like have 16 bits."""
        precision, counts = self.precision, self.model.part_parameters
        inside = sum([precision.of(part).bits * count for part, count in counts.items()])
        return ceil((inside + 16 * (self.model.parameters - sum(counts.values()))) / 8)

    @property
    def power_w(self) -> float:
        """Watts that one device draws at most."""
        return min(self.power_cap_w, self.device.tdp_w) if self.power_cap_w else self.device.tdp_w

    @property
    def slowed(self) -> bool:
        """Whether its cap lies below the TDP."""
        return self.power_w < self.device.tdp_w

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.tensor * self.pipeline * self.data

    @property
    def bounds(self) -> tuple[int, int]:
        """The fewest and the most replicas that it may have."""
        if self.min_replicas is None and self.max_replicas is None:
            return self.replicas, self.replicas
        least = 1 if self.min_replicas is None else self.min_replicas
        return least, self.replicas if self.max_replicas is None else self.max_replicas

    @property
    def slots(self) -> int:
        """Places for replicas: as many as it may ever have."""
        return max(self.replicas, self.bounds[1])

    @property
    def stages(self) -> Startup:
        """Its start-up; a plain `start_s` is provisioning alone."""
        return Startup(provision_s=self.start_s) if self.startup is None else self.startup


FaultKind = Literal["lost", "reclaimed", "drain", "join", "slow", "device_lost", "link_slow", "link_lost"]

LIFE: tuple[FaultKind, ...] = ("lost", "reclaimed", "drain", "join", "device_lost")
"""The kinds of faults and joins."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An event of a replica at `at_s` after the start of the run.

    lost: gone at once, with its queue and KV.  reclaimed: drains from `at_s`, gone after `notice_s`.
    drain: takes no new requests and leaves when empty.  join: a replica that was absent until then, or gone, starts.
    slow: steps that begin within `for_s` take `factor` times as long.  link_slow: so do KV transfers over its link.
    link_lost: its link carries nothing for `for_s`; what is on it waits.
    device_lost: `devices` of it are lost for `for_s`. The replica is slower until then where its estimator survives
    that (`after_loss`); else it is lost, and begins to start again when all its devices are there.
    for_s: 0 for the rest of the run.  factor: of a join, how many times as long as usual its start takes.
    """

    at_s: float
    kind: FaultKind
    replica: int
    notice_s: float = 0.0
    for_s: float = 0.0
    factor: float = 1.0
    devices: int = 1


@dataclass(frozen=True, slots=True)
class FaultRate:
    """Faults that come at random: of each replica `per_hour` on average, with exponential gaps between them.

    replicas: whose; none: all.  notice_s, for_s, factor, devices: as a `Fault` has them.  back_s: mean seconds
    (exponential) until another begins to start in the place of one that is lost or reclaimed; 0: none ever does.
    The next gap begins when a spell is over, but devices are lost while others are away.
    """

    kind: FaultKind
    per_hour: float
    replicas: tuple[int, ...] = ()
    notice_s: float = 0.0
    for_s: float = 0.0
    factor: float = 1.0
    back_s: float = 0.0
    devices: int = 1


MOST_REPLICAS = 100_000
"""Replicas of a cluster at most, so that a slip of zeros is an error and does not fill memory."""


@dataclass(frozen=True, slots=True)
class EncoderPool:
    """Devices that encode images and audio before prompts reach the pools, one request each at a time.

    price_per_hour: dollars of a device, None for the device's own.  link_bw: bytes/s at which one hands embeddings
    over; 0 takes the device's scale-out figure.
    """

    device: Device
    replicas: int = 1
    price_per_hour: float | None = None
    link_bw: float = 0.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Pools of replicas, numbered densely in order, and what joins them.

    `link_bw` (bytes/s one way per replica) and `link_latency_s` carry KV between replicas; 0 takes the device's
    scale-out figure times the devices of the replica, and a pool may have a `link_bw` of its own.  fault_rates: of
    faults that are drawn by the run's seed, in addition to the given `faults`.  encoders: of images and audio, apart
    from the pools; None where the replicas that compute prompts encode for themselves.
    """

    pools: tuple[Pool, ...]
    link_bw: float = 0.0
    link_latency_s: float = 10e-6
    faults: tuple[Fault, ...] = ()
    fault_rates: tuple[FaultRate, ...] = ()
    encoders: EncoderPool | None = None

    @property
    def absent(self) -> set[int]:
        """Replicas that are absent at the start: the first event of theirs is that they join."""
        first: dict[int, Fault] = {}
        for fault in sorted(self.faults, key=lambda fault: fault.at_s):
            if fault.kind in LIFE:
                first.setdefault(fault.replica, fault)
        return {replica for replica, fault in first.items() if fault.kind == "join"}

    @property
    def returning(self) -> set[int]:
        """Replicas that return after they were lost, by the given faults."""
        joins = [fault.replica for fault in self.faults if fault.kind == "join"]
        for replica in self.absent:
            joins.remove(replica)
        return {*joins, *(fault.replica for fault in self.faults if fault.kind == "device_lost" and fault.for_s)}

    @property
    def replicas(self) -> int:
        """Replicas of all pools, those that join later and those that a scaler may bring included."""
        return sum(pool.slots for pool in self.pools)

    def pool_of(self, replica: int) -> int:
        """The index of the pool that replica `replica` belongs to."""
        for index, pool in enumerate(self.pools):
            if replica < pool.slots:
                return index
            replica -= pool.slots
        raise IndexError("replica is beyond the cluster")


@dataclass(frozen=True, slots=True)
class Slo:
    """The service level objective, in seconds; a request meets it when it meets every part given.

    program_s: from the first arrival of its program to its last end; all requests of a program meet it or none.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    program_s: float | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """The control side's knowledge of its replicas: reports every `period_s` (0: before each decision), `delay_s` late.

    in_flight: its own dispatches count at once, not only when a report shows them.
    prefix: what it knows of prefix caches: `own` (an index of what it sent where), `reported` (the replicas' caches
    as of the last report) or `oracle` (their true state now).
    gateways: how many share the requests, each with a belief of its own: it counts only its own dispatches, unless
    gateways report their requests to one another, `share_s` seconds late (None: they do not).
    """

    period_s: float = 1.0
    delay_s: float = 0.05
    in_flight: bool = True
    prefix: Literal["own", "reported", "oracle"] = "own"
    gateways: int = 1
    share_s: float | None = None


class ReplicaSpec(NamedTuple):
    """The control side's prior knowledge of a replica.

    model: index of the model that it serves (-1: whatever is asked).  capacity_tokens: the longest request it can hold.
    cache_tokens: room of its prefix cache.  up: whether it serves from the start.  blocks: of its KV cache.
    prefill_rate: prompt tokens per second at a full token budget.  kv_token_bytes: KV cache of one token.
    link_bw, link_latency_s: of its link to the others, bytes/s (0: unknown, and not counted) and seconds.
    pool: the index of its pool, -1 for one that no scaler decides on.
    decode_rate: output tokens per second of one request that decodes alone.
    returns: another will take its place when it is lost.
    tenants: whose requests it serves alone, as `Pool.tenants`.
    adapter_slots: adapters whose requests it runs at once, 0 for no limit or an unknown one.
    """

    model: int = -1
    role: Role = "mixed"
    capacity_tokens: int = 1 << 40
    cache_tokens: int = 1 << 40
    up: bool = True
    blocks: int = 0
    prefill_rate: float = 0.0
    kv_token_bytes: float = 0.0
    link_bw: float = 0.0
    link_latency_s: float = 0.0
    pool: int = 0
    decode_rate: float = 0.0
    returns: bool = False
    tenants: tuple[int, ...] = ()
    adapter_slots: int = 0


class PoolSpec(NamedTuple):
    """The control side's prior knowledge of a pool: a name, how many replicas it has and how many it may have.

    warm: pre-warmed slots that it has.  start_s: the typical seconds until a new replica serves, 0 for unknown; a
    pre-warmed one takes `warm_start_s`.
    """

    name: str = ""
    replicas: int = 1
    min_replicas: int = 1
    max_replicas: int = 1
    warm: int = 0
    start_s: float = 0.0
    warm_start_s: float = 0.0


def described(cluster: Cluster) -> str:
    """The pools of a cluster in a few words, as in 8 × llama-3.1-8b on H100."""
    pools = [
        f"{pool.replicas} × {pool.model.name} on {f'{pool.devices} × ' if pool.devices > 1 else ''}{pool.device.name}"
        + (f" ({pool.role})" if pool.role != "mixed" else "")
        for pool in cluster.pools
    ]
    return ", ".join(pools)
