"""Options of an emulated engine, named as vLLM names them, and the replica built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poise.catalogue import device as find_device
from poise.catalogue import model as find_model
from poise.core.engine.extents import CacheListener
from poise.core.engine.replica import Replica
from poise.core.errors import UserError
from poise.core.policy import Bundle
from poise.core.spec import Engine, Pool
from poise.cost import Roofline, RooflineEstimator, kv_blocks
from poise.cost.adapters import Adapters
from poise.cost.states import state_blocks
from poise.live.emulator.identity import KeepOutputs
from poise.live.emulator.publish import KvEvents
from poise.live.emulator.slow import Slow


@dataclass(frozen=True, slots=True)
class Options:
    """Flags of `poise engine`; those that vLLM has too have its names and defaults.

    model: a catalogue name, or the path of a `config.json`.  device: a catalogue name.
    served_model_name: names that requests may use, the first one in answers; () for the model's.
    lora_modules: adapters, `NAME` or `NAME=PATH` as vLLM has it.  enable_lora: whether they take slots, memory and the
    time of their loads, with `max_loras`, `max_cpu_loras` (0: as many) and `max_lora_rank`; else they cost nothing.
    allow_runtime_lora_updating: whether adapters may be loaded and unloaded while it runs.
    num_gpu_blocks_override: KV blocks, 0 to derive them from the device's memory.  max_model_len: 0 for the model's.
    kv_events_config: vLLM's JSON; None for no events.  api_key: keys of which a request must bring one; () for none.
    speed: how many times faster than real everything goes.  seed: of texts and output lengths.
    faults: whether `/fault` accepts faults.
    """

    model: str = "llama-3.1-8b"
    device: str = "H100"
    host: str = "127.0.0.1"
    port: int = 8000
    served_model_name: tuple[str, ...] = ()
    lora_modules: tuple[str, ...] = ()
    enable_lora: bool = False
    max_loras: int = 1
    max_cpu_loras: int = 0
    max_lora_rank: int = 16
    allow_runtime_lora_updating: bool = False
    max_model_len: int = 0
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    num_gpu_blocks_override: int = 0
    enable_prefix_caching: bool = True
    gpu_memory_utilization: float = 0.9
    tensor_parallel_size: int = 1
    kv_events_config: KvEvents | None = None
    api_key: tuple[str, ...] = ()
    enable_prompt_tokens_details: bool = False
    speed: float = 1.0
    seed: int = 0
    faults: bool = False

    def __post_init__(self) -> None:
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size", "max_loras",
                     "max_lora_rank"):  # fmt: skip
            if getattr(self, name) < 1:
                raise UserError(f"{_flag(name)} {getattr(self, name)} must be 1 or more")
        for name in ("max_model_len", "num_gpu_blocks_override"):
            if getattr(self, name) < 0:
                raise UserError(f"{_flag(name)} {getattr(self, name)} must not be negative; 0 derives it")
        if self.max_cpu_loras and self.max_cpu_loras < self.max_loras:
            raise UserError(
                f"--max-cpu-loras {self.max_cpu_loras} must not be below --max-loras {self.max_loras}: what lies on "
                "the device lies in host memory too; 0 takes as many"
            )
        if not 0 <= self.port < 1 << 16:
            raise UserError(f"--port {self.port} is not a port; give 1 to 65535, or 0 for a free one")
        if not self.speed > 0:
            raise UserError(f"--speed {self.speed:g} must be above 0; 10 is ten times faster than real")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise UserError(f"--gpu-memory-utilization {self.gpu_memory_utilization:g} must be above 0, up to 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UserError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} must not be below --max-num-seqs "
                f"{self.max_num_seqs}: each running request takes one token of a step"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows from the options: how the pool is laid out, what its steps cost, and the limits for requests.

    name: of the model in answers.  names: that requests may use for it.
    context: the most tokens of prompt and output together.
    """

    options: Options
    pool: Pool
    estimator: RooflineEstimator
    blocks: int
    name: str
    names: tuple[str, ...]
    context: int

    def replica(
        self, policies: Bundle, listener: CacheListener | None = None, ranks: Sequence[int] = ()
    ) -> tuple[Replica, Slow]:
        """A new replica with an empty cache and its own copies of the policies, and the handle that slows it down.

        ranks: of the adapters, by number.
        """
        slow = Slow(self.estimator)
        keep = KeepOutputs()
        made = Replica(
            self.pool.engine, slow, self.blocks, replace(policies.for_engine(), cache=keep),
            layers=self.pool.model.layers, listener=listener,
            adapters=Adapters(self.pool, ranks) if self.options.enable_lora else None,
            state_blocks=state_blocks(self.pool),
        )  # fmt: skip
        keep.replica = made
        return made, slow


def plan(options: Options) -> Plan:
    """Look model and device up and derive the rest; UserError for what is unknown, CapacityError for what won't fit."""
    model = find_model(options.model)
    engine = Engine(
        token_budget=options.max_num_batched_tokens,
        max_sequences=options.max_num_seqs,
        block_tokens=options.block_size,
        prefix_caching=options.enable_prefix_caching,
        memory_fraction=options.gpu_memory_utilization,
        kv_blocks=options.num_gpu_blocks_override,
        max_loras=options.max_loras if options.enable_lora else 0,
        max_cpu_loras=options.max_cpu_loras,
        max_lora_rank=options.max_lora_rank,
    )
    pool = Pool(model, find_device(options.device), tensor=options.tensor_parallel_size, engine=engine)
    estimator = Roofline().build(pool)
    blocks = kv_blocks(pool)
    room = blocks * options.block_size
    context = options.max_model_len or min(model.max_context, room)
    if context > room:
        raise UserError(
            f"--max-model-len {context} is more than the KV cache holds, {room} tokens; decrease it, or increase "
            f"--gpu-memory-utilization or --num-gpu-blocks-override"
        )
    names = options.served_model_name or (options.model,)
    return Plan(options, replace(pool, name=names[0]), estimator, blocks, names[0], names, context)
