"""Which weights an engine loads, and which properties of a pool no engine flag can set."""

from __future__ import annotations

from pathlib import Path

from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Format, Lane, Pool
from poise.cost import kv_blocks
from poise.plan.deploy.setting import Setting

NATIVE: dict[str, Format] = {
    "deepseek-ai/DeepSeek-V3": "fp8",
    "deepseek-ai/DeepSeek-R1": "fp8",
    "moonshotai/Kimi-K2-Instruct": "fp8",
    "MiniMaxAI/MiniMax-M2.5": "fp8",
    "openai/gpt-oss-20b": "fp4",
    "openai/gpt-oss-120b": "fp4",
}
"""Models whose published weights are narrower than 16 bits, by `quantization_config` of their config.json."""

MADE_AT_LOAD: tuple[Format, ...] = ("fp8",)
"""Formats that engines make of 16-bit weights while they load them; others need a checkpoint in that format."""

MAKERS = ("NVIDIA", "AMD")
"""Makers of the devices for which flags, variables and images are known."""


def native(model: Model) -> Format:
    """The format of a model's published weights."""
    return NATIVE.get(model.name, "bf16")


def place(model: Model) -> str:
    """The repository of a built-in model; the folder of the config.json that another one was read from."""
    if model.source.startswith(("https://", "made up")):
        return model.name
    file = Path(model.source).expanduser().resolve()
    return str(file.parent if file.suffix == ".json" else file)


def checkpoint(pool: Pool, setting: Setting) -> str:
    """The repository or folder that is loaded; UserError where none in the format is given and none can be made."""
    if pool.weights in setting.checkpoints:
        return setting.checkpoints[pool.weights]
    own = native(pool.model)
    if pool.weights == own or (own == "bf16" and pool.weights in MADE_AT_LOAD):
        return place(pool.model)
    raise UserError(
        f"{pool.model.name} is published in {own}, and the plan has {pool.weights} weights; "
        f"give a checkpoint in that format, as in --checkpoint {pool.weights}=REPOSITORY"
    )


def made_at_load(pool: Pool, setting: Setting) -> bool:
    """Whether the engine narrows the weights itself."""
    return pool.weights not in setting.checkpoints and pool.weights != native(pool.model)


def check(pool: Pool) -> None:
    """UserError for what was simulated and has no engine flag."""
    engine = pool.engine
    if pool.device.vendor not in MAKERS:
        raise UserError(f"flags and images are known for devices of {' and '.join(MAKERS)}, not {pool.device.name}")
    if engine.lanes != (Lane(),):
        raise UserError("lanes that share a device are no flag of an engine; plan with one lane")
    if engine.host_kv_bytes:
        raise UserError("host_kv_bytes: preemption to host memory is not a flag of an engine; plan with 0")
    if not engine.reserve_prompt:
        raise UserError("reserve_prompt is false, which is not a flag of an engine; plan with true")


def longest(pool: Pool, setting: Setting) -> int:
    """The longest request that the engine may take, where that is less than the model's own limit; else 0.

    An engine does not start where one request of its limit would not fit into its KV cache.
    """
    room = kv_blocks(pool) * pool.engine.block_tokens // pool.data
    if room >= pool.model.max_context:
        return 0
    return min(room, setting.longest) if setting.longest else room
