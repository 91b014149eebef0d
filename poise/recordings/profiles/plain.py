"""The roofline's times of single operators, for comparison: fixed time plus the larger of arithmetic and bytes."""

from __future__ import annotations

import numpy as np

from poise.core.spec import Device
from poise.cost.collective import Line, Link, all_gather, all_reduce, all_to_all, p2p
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import link_of
from poise.cost.operator import OPERATORS
from poise.recordings.profiles.fitting import Floats, columns

_STREAM = {"bf16": "bf16", "int8": "int8", "int8_wo": "int8", "int4_wo": "int4", "nvfp4": "fp4"}
_PRODUCT = {"int8": "int8", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}


def plain(kind: str, form: str, device: Device, coordinates: Floats) -> Floats:
    """Seconds at each row of coordinates by the roofline's default efficiencies."""
    use, operator, at = Efficiencies(), OPERATORS[kind], columns(coordinates)
    if operator.link:
        return _collectives(kind, device, use, coordinates)
    compute, moved = operator.least(at, form, operator.figures(device, form))
    if kind == "gemm":
        reached = getattr(use, f"gemm_{_PRODUCT.get(form, 'bf16')}"), getattr(use, f"stream_{_STREAM.get(form, 'fp8')}")
        fixed = use.gemm_s if form == "bf16" else use.quantised_gemm_s
    elif kind in ("prefill", "mla_prefill"):
        reached, fixed = (use.attention_prefill, use.stream_bf16), use.attention_s
    elif kind == "decode":
        narrow = use.attention_decode_bf16 if form == "bf16" else use.attention_decode_fp8
        reached, fixed = (use.attention_prefill, narrow), use.attention_s
    elif kind == "mla_decode":
        reached, fixed = (use.mla_decode_flops, use.mla_decode), use.attention_s
    elif kind.endswith("_module"):
        reached, fixed = (use.gemm_bf16, use.stream_bf16), 6 * use.gemm_s + use.attention_s + 4 * use.light_s
    elif kind in ("moe", "moe_ep"):
        reached, fixed = (use.moe_gemm, use.moe_stream), use.moe_s
    else:
        return np.asarray(use.light_s + at[0] / (device.memory_bw * use.stream_bf16))
    return np.asarray(fixed + np.maximum(compute / reached[0], moved / reached[1]))


def _collectives(kind: str, device: Device, use: Efficiencies, coordinates: Floats) -> Floats:
    found = []
    for size, ranks in coordinates:
        count = int(ranks)
        link = link_of(
            device,
            count,
            latency_s=use.collective_s,
            far_latency_s=use.far_s,
            efficiency=use.link,
            host_efficiency=use.host_link,
        )
        if kind.endswith("all_reduce"):
            found.append(all_reduce(count, float(size), link))
        else:
            found.append(_line(kind, count, link).at(float(size)))
    return np.array(found)


def _line(kind: str, ranks: int, link: Link) -> Line:
    if kind == "send_recv":
        return p2p(link)
    exchanges = kind.endswith("all_to_all") or kind.startswith(("dispatch", "combine"))
    return all_to_all(ranks, link) if exchanges else all_gather(ranks, link)
