"""The models that torchtitan 0.3.0 and its main branch have, and the function of a settings file that trains one."""

from __future__ import annotations

from poise.cost.training.job import Job

FLAVORS = {
    "meta-llama/Llama-3.1-8B": ("llama3", "llama3_8b", "8B"),
    "meta-llama/Llama-3.1-70B": ("llama3", "llama3_70b", "70B"),
    "meta-llama/Llama-3.3-70B-Instruct": ("llama3", "llama3_70b", "70B"),
    "meta-llama/Llama-3.1-405B": ("llama3", "llama3_405b", "405B"),
    "meta-llama/Meta-Llama-3-8B": ("llama3", "llama3_8b", "8B"),
    "meta-llama/Meta-Llama-3-70B": ("llama3", "llama3_70b", "70B"),
    "Qwen/Qwen3-0.6B": ("qwen3", "qwen3_0_6b", "0.6B"),
    "Qwen/Qwen3-1.7B": ("qwen3", "qwen3_1_7b", "1.7B"),
    "Qwen/Qwen3-14B": ("qwen3", "qwen3_14b", "14B"),
    "Qwen/Qwen3-32B": ("qwen3", "qwen3_32b", "32B"),
    "Qwen/Qwen3-30B-A3B": ("qwen3", "qwen3_30b_a3b", "30B-A3B"),
    "deepseek-ai/DeepSeek-V2-Lite": ("deepseek_v3", "deepseek_v3_16b", "16B"),
    "deepseek-ai/DeepSeek-V3": ("deepseek_v3", "deepseek_v3_671b", "671B"),
}
"""torchtitan's module, its function of settings and its name of the size, by repository."""

_UNSCALED = ("meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-70B")
"""Models whose positions are not stretched, where torchtitan's of the same size are (Llama 3.1)."""


def planned(job: Job) -> str:
    """The function `planned` of a settings file: torchtitan's own settings of the model with this layout."""
    module, settings, flavor = FLAVORS[job.model.name]
    fp8 = job.precision == "fp8"
    spec = f'model_registry("{flavor}")'
    if fp8:
        converter = 'Float8LinearConverter.Config(filter_fqns=["lm_head"], model_compile_enabled=True)'
        spec = f'model_registry(\n        "{flavor}", converters=[{converter}]\n    )'
    lines = [
        f"    from torchtitan.models.{module} import model_registry",
        f"    from torchtitan.models.{module}.config_registry import {settings}\n",
        f"    config = {settings}()",
        f"    config.model_spec = {spec}",
        "    config.parallelism, config.training = parallelism, training",
        "    config.activation_checkpoint = activation_checkpoint",
        f"    config.compile = CompileConfig(enable={fp8})",
    ]
    if fp8:
        lines.insert(0, "    from torchtitan.components.quantization import Float8LinearConverter")
    if job.model.name in _UNSCALED:
        lines.append('    for layer in config.model_spec.model.layers:\n        layer.attention.rope.scaling = "none"')
    text = "\n".join(["    from torchtitan.config import CompileConfig", *lines, "    return config"])
    return f'\n\ndef planned():\n    """The settings of the model with this layout."""\n{text}\n'
