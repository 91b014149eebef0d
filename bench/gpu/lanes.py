"""Two lanes on one device: prompts and decodes with a part of the SMs, alone and side by side.

    python bench/gpu/lanes.py [--tokens 2048] [--decodes 64] [--context 1024] [--json lanes.json]

Green contexts part the SMs (the CUDA driver's API by `cuda-bindings`, CUDA 12.4 or newer); shares are rounded to what
the device can part. Measured are one layer of Llama-3.1-8B with prompts, and one with decodes, which rotates over
copies larger than any cache. A row has a share of prompts, the other lane having the rest: milliseconds of both alone
and together, each measured while the other one runs all the time, and the gain of running both over one after the
other on the whole device. The last lines fit `share_arithmetic` and `share_bandwidth` to the times alone, and
`share_friction` to the prompts' times together.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from math import log
from typing import Any

import torch
from kernels import Layer, arguments, median_s, need_device, positive, show

from poise.cost.sm_share import reached

Run = Callable[[], None]
COPIES = 4
"""Copies of a layer's weights and KV: together beyond any cache."""
BESIDE_S = 0.5
"""Seconds for which both lanes run to be measured together."""


def rotating(layer: Layer, decodes: int, context: int) -> Run:
    """A layer of decodes, with other weights and KV from run to run."""
    copies = [(layer.products(decodes, "cuda"), layer.attention(decodes, 1, context, "cuda")) for _ in range(COPIES)]
    following = itertools.cycle(copies)

    def run() -> None:
        for part in next(following):
            part()

    return run


def prompting(layer: Layer, tokens: int) -> Run:
    """A layer of one prompt."""
    parts = layer.products(tokens, "cuda"), layer.attention(1, tokens, 0, "cuda")

    def run() -> None:
        for part in parts:
            part()

    return run


def parted(share: float) -> tuple[float, torch.cuda.Stream, torch.cuda.Stream]:
    """The share that the device allows, a stream on so many of its SMs, and one on the others."""
    from cuda.bindings import driver

    def checked(result: tuple[Any, ...]) -> Any:
        error, *values = result
        if error != driver.CUresult.CUDA_SUCCESS:
            raise SystemExit(f"green contexts: the driver says {error.name}; they need CUDA 12.4 and a recent driver")
        return values[0] if len(values) == 1 else values

    torch.cuda.init()
    device = checked(driver.cuDeviceGet(torch.cuda.current_device()))
    all_sms = checked(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    wanted = max(1, round(share * all_sms.sm.smCount))
    groups, _, others = checked(driver.cuDevSmResourceSplitByCount(1, all_sms, 0, wanted))

    def stream(resource: Any) -> torch.cuda.Stream:
        described = checked(driver.cuDevResourceGenerateDesc([resource], 1))
        flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = checked(driver.cuGreenCtxCreate(described, device, flags))
        made = checked(driver.cuGreenCtxStreamCreate(context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
        return torch.cuda.ExternalStream(int(made))

    return groups[0].sm.smCount / all_sms.sm.smCount, stream(groups[0]), stream(others)


def alone(run: Run, stream: torch.cuda.Stream, repeats: int) -> float:
    """The median time of a run on a stream, in seconds."""
    with torch.cuda.stream(stream):
        return median_s(run, repeats)


def together(
    runs: tuple[Run, Run], streams: tuple[torch.cuda.Stream, torch.cuda.Stream], each: list[float]
) -> list[float]:
    """The median time of a run of each lane while the other one runs all the time; `each`: their times alone."""
    torch.cuda.synchronize()
    marks: list[list[torch.cuda.Event]] = [[], []]
    begun = torch.cuda.Event(enable_timing=True)
    begun.record()
    for stream in streams:
        stream.wait_event(begun)
    left = [max(10, round(BESIDE_S / time)) for time in each]
    while any(left):  # in turn by time, so that neither stream runs dry
        lane = max((0, 1), key=lambda at: left[at] * each[at])
        with torch.cuda.stream(streams[lane]):
            runs[lane]()
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
        marks[lane].append(mark)
        left[lane] -= 1
    torch.cuda.synchronize()
    ends = [[begun.elapsed_time(mark) / 1000 for mark in lane] for lane in marks]
    both = min(lane[-1] for lane in ends)
    inside = [[end for end in lane if end <= both] for lane in ends]
    return [statistics.median(then - first for first, then in itertools.pairwise(lane)) for lane in inside]


def fitted(points: list[tuple[float, float]]) -> float:
    """The limit with the least error of the times ratios (share, part of the rate reached)."""
    limits = [0.05 * 1.02**n for n in range(250)]
    return min(limits, key=lambda limit: sum(abs(log(reached(share, limit) / part)) for share, part in points))


def main() -> None:
    """Measure, print the table and the fits."""
    parser = arguments(__doc__)
    parser.add_argument("--tokens", type=positive, default=2048, help="of a prompt")
    parser.add_argument("--decodes", type=positive, default=64, help="sequences of the decode lane")
    parser.add_argument("--context", type=positive, default=1024, help="KV tokens of each")
    args = parser.parse_args()
    print(need_device())
    layer = Layer()
    prompts, decodes = prompting(layer, args.tokens), rotating(layer, args.decodes, args.context)
    whole = [median_s(prompts, args.repeats), median_s(decodes, args.repeats)]
    rows: list[dict[str, Any]] = []
    for wanted in range(1, 10):
        share, first, second = parted(wanted / 10)
        each = [alone(prompts, first, args.repeats), alone(decodes, second, args.repeats)]
        beside = together((prompts, decodes), (first, second), each)
        gain = whole[0] / beside[0] + whole[1] / beside[1]
        times = {"prompts": each[0], "decodes": each[1], "prompts beside": beside[0], "decodes beside": beside[1]}
        rows.append({"share": share, **{f"{name} ms": 1000 * time for name, time in times.items()}, "gain": gain})
    rows.append({"share": 1.0, "prompts ms": 1000 * whole[0], "decodes ms": 1000 * whole[1]})
    show([*rows[0]], rows, args.json)
    math = fitted([(row["share"], 1000 * whole[0] / row["prompts ms"]) for row in rows[:-1]])
    memory = fitted([(1 - row["share"], 1000 * whole[1] / row["decodes ms"]) for row in rows[:-1]])
    slower = statistics.median(row["prompts beside ms"] / row["prompts ms"] - 1 for row in rows[:-1])
    print(f"share_arithmetic {math:.3f}, share_bandwidth {memory:.3f}, share_friction at most {slower:.3f}")


if __name__ == "__main__":
    main()
