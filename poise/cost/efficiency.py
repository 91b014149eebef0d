"""Stated efficiencies: one set for all devices and models, each with its meaning and source."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from poise.core.errors import ScenarioError

OPERATORS = (
    "median over A100, H100, H200 and B200 of measured operator times in the AIConfigurator performance database "
    "(ai-dynamo/aiconfigurator, Apache-2.0; vLLM 0.24/0.14, SGLang 0.5.14/0.5.10, TensorRT-LLM 1.3.0rc20/1.0.0), "
    "bench/fit_roofline.py, 2026-11"
)
LAYERS = (
    "vLLM 0.19 on RTX 4090 and RTX PRO 6000 (casys-kaist/LLMServingSim profiles, MIT), bench/fit_roofline.py, 2026-11"
)
HOST = (
    "set by hand between the residuals of single-stream decoding of 7-8B models on one H100 "
    "(argonne-lcf/LLM-Inference-Bench, BSD-3): about 0.4 ms for TensorRT-LLM and 1.1 ms for vLLM of 2024; "
    "bench/check_roofline.py, 2026-11"
)
PCIE = (
    "of at most 32 GB/s through the host: meets TensorRT-LLM on 2 to 8 L40S (NVIDIA's performance pages, Apache-2.0) "
    "and vLLM 0.19 on 2 RTX PRO 6000 (casys-kaist/LLMServingSim, MIT), whose run states 16 GB/s, 2026-11"
)
SCAN = (
    "median of chunked gated-delta-rule kernels over one or two sequences of ≥ 1,024 tokens, on H100, H200 and B200 by "
    "vLLM 0.24, SGLang 0.5.14 and TensorRT-LLM 1.3.0rc20: 42 to 103 ns, with a few sequences hardly longer "
    "(AIConfigurator performance database, Apache-2.0), 2026-11"
)
STATES = (
    "median over kernels of gated delta rules and KDA by vLLM, SGLang and TensorRT-LLM on seven devices (AISimulate's "
    "operator tables, Apache-2.0), bench/fit_states.py, 2026-11"
)
SEQUENCE = (
    "set by hand, order of magnitude only: vLLM 0.27's scheduler takes 12.7 µs per running request "
    "(openfabric-systems/simllm pull request 204, which voids its own run for drift), of which "
    "asynchronous scheduling hides a part"
)
LANES = (
    "fit to steps of LLaMA 7B and 13B on one A100 by vLLM of 2024 with 30 to 100 % of the SMs under MPS "
    "(hao-ai-lab/MuxServe, examples/placement/llama.json), bench/fit_lanes.py, 2026-11"
)
FRICTION = (
    "bound of Bullet (ASPLOS 2026, arXiv 2504.19516, figure 10): a large GEMM on more than 60 % of an A100's SMs is "
    "slowed by less than 8 % beside a memory copy on the others"
)
SWITCH = "Bullet (arXiv 2504.19516, table 5): mean time to set a stream's SM mask, 4.1 µs"


def stated(value: float, what: str, source: str, most: float = 1.0) -> Any:
    """A coefficient with its meaning and the source of its default; `most`: its largest value, where no time."""
    return field(default=value, metadata={"what": what, "source": source, "most": most})


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """Fractions are of a datasheet figure, durations are in seconds; override any of them by name."""

    gemm_bf16: float = stated(0.73, "peak reached by GEMMs of ≥ 10^12 FLOP", OPERATORS)
    gemm_fp8: float = stated(0.55, "the same, FP8 peak", OPERATORS)
    gemm_int8: float = stated(0.88, "the same, INT8 peak (A100 only)", OPERATORS)
    gemm_fp4: float = stated(0.44, "the same, FP4 peak (B200 only)", OPERATORS)
    stream_bf16: float = stated(0.81, "bandwidth reached by GEMMs of ≤ 16 tokens on ≥ 256 MB of weights", OPERATORS)
    stream_fp8: float = stated(0.765, "the same, FP8 weights", OPERATORS)
    stream_int8: float = stated(0.83, "the same, INT8 weights (A100 only)", OPERATORS)
    stream_int4: float = stated(0.80, "the same, INT4 weights computed in BF16 (A100 only)", OPERATORS)
    stream_fp4: float = stated(0.585, "the same, FP4 weights (B200 only)", OPERATORS)
    moe_gemm: float = stated(0.31, "peak reached by fused MoE layers with balanced tokens, all formats", OPERATORS)
    moe_stream: float = stated(0.64, "bandwidth reached by fused MoE layers, all formats", OPERATORS)
    attention_prefill: float = stated(0.55, "BF16 peak reached by attention over prompts, heads of 128", OPERATORS)
    attention_decode_bf16: float = stated(0.77, "bandwidth reached by decode attention over ≥ 256 MB of KV", OPERATORS)
    attention_decode_fp8: float = stated(0.64, "the same, KV of 8 bits or fewer", OPERATORS)
    mla_decode: float = stated(0.73, "bandwidth reached by absorbed MLA decoding with ≤ 16 heads a device", OPERATORS)
    mla_decode_flops: float = stated(0.51, "BF16 peak reached by absorbed MLA decoding with 128 heads", OPERATORS)
    gemm_s: float = stated(4.2e-6, "fixed time of a BF16 GEMM: 4-64 MB of weights less their streaming", OPERATORS)
    quantised_gemm_s: float = stated(
        9.2e-6, "the same, quantised formats (median over FP8, FP4, INT8, INT4)", OPERATORS
    )
    moe_s: float = stated(36e-6, "fixed time of a fused MoE layer: routing, permutation, two grouped GEMMs", OPERATORS)
    attention_s: float = stated(10.4e-6, "fixed time of attention: decode over < 1 MB of KV", OPERATORS)
    light_s: float = stated(2.3e-6, "time of a norm, rotary or activation kernel on one token", LAYERS)
    collective_s: float = stated(
        4.1e-6, "α between peers on a switch: engine all-reduce of ≤ 2 kB in a CUDA graph", OPERATORS
    )
    far_s: float = stated(5e-6, "α over PCIe or NICs", "AIConfigurator systems/gb200.yaml, inter-rack InfiniBand")
    link: float = stated(0.73, "link bandwidth reached by all-reduce of ≥ 128 MB", OPERATORS)
    host_link: float = stated(0.58, "PCIe bandwidth reached by collectives of a host without links of its own", PCIE)
    sample_s: float = stated(22e-6, "fixed time of the sampler", LAYERS)
    sample_sequence_s: float = stated(0.9e-6, "time of the sampler per sequence", LAYERS)
    cpu_step_s: float = stated(0.5e-3, "host time of one step that the device waits for", HOST)
    cpu_sequence_s: float = stated(5e-6, "host time per sequence in a step that the device waits for", SEQUENCE)
    state_stream: float = stated(
        0.75, "bandwidth reached by decoding updates of linear layers' states, read and written", STATES
    )
    convolution: float = stated(0.37, "bandwidth reached by the causal convolution of linear layers", STATES)
    scan_flops: float = stated(
        0.02, "BF16 peak reached by chunked scans of many prompts, at 4 FLOP for a value of the state", STATES
    )
    scan_token_s: float = stated(
        0.052e-6, "time of a gated linear-attention layer's kernel per token of the longest chunk, which it walks", SCAN
    )
    share_arithmetic: float = stated(
        1.08,
        "limit a of the arithmetic s·((1 + a³)/(s³ + a³))^(1/3) that a share s of the SMs reaches alone",
        LANES,
        inf,
    )
    share_bandwidth: float = stated(0.45, "the same of memory bandwidth: a few SMs nearly fill it", LANES, inf)
    share_friction: float = stated(
        0.08, "how much longer a step takes beside others that use the whole bandwidth, beyond its part of it", FRICTION
    )
    share_switch_s: float = stated(4.1e-6, "time to give a lane another share, before its next step", SWITCH)

    def __post_init__(self) -> None:
        for f in fields(Efficiencies):
            value = getattr(self, f.name)
            if not (0 <= value < inf) or (value == 0 and not f.name.endswith("_s")):
                raise ScenarioError(
                    f"cost.{f.name} is {value}; durations are ≥ 0 seconds, fractions > 0: {f.metadata['what']}"
                )

    def sources(self) -> dict[str, dict[str, object]]:
        """Each coefficient with its value, meaning and source ("given by the user" where it is not the default)."""
        return {
            f.name: {
                "value": getattr(self, f.name),
                "what": f.metadata["what"],
                "source": f.metadata["source"] if getattr(self, f.name) == f.default else "given by the user",
            }
            for f in fields(Efficiencies)
        }
