"""semi-PD (arXiv 2504.19867): prompts and decodes on two lanes of one device, whose SM shares follow what is observed.

Both lanes share weights and KV blocks; each composes as `chunked` does. The shares x of prompts and y of decodes may
exceed the device together: steps that run side by side then divide it, x' = x/(x + y) for prompts, and a step alone has
its own share. At the end of each window they are reviewed (algorithm 1): where a quantile of the window's times to
first token misses its limit and that of the times per output token does not, x grows by steps, or y shrinks where x is
1, until the fitted a₁/(x' − λ) + a₂ is within the limit, or by `most_steps`; symmetrically for b₁/y' + b₂; else they
stay. λ is the share that the window's prompts needed, by the cost model. Lines are fitted to the last windows.

A window lasts for seconds, the paper's for iterations, and until enough prompts have had a first token for a quantile
of them to be believed. The time per output token is the mean over the window's decode steps, which all running requests
share: that of each request would be known only at its end. Resident workers and the delayed hand-over hide a switch, of
which the paper names no time; here the cost model's time of a switch counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import NONE, Batch
from poise.core.estimate import Chunk
from poise.core.request import RequestView
from poise.core.units import SECOND, ps
from poise.core.view import LaneView
from poise.policies.batch.chunked import Chunked
from poise.policies.kit.line_fit import fitted

KEPT = 8
"""Windows that lines are fitted to."""


@dataclass(slots=True)
class SemiPd(Chunked):
    """Compose on two lanes and move their shares; `tokens` and `long_prefill` as in `Chunked`.

    ttft_s, tpot_s: limits, of which `quantile` of the requests are to keep each.  share, decode_share: of prompts and
    of decodes at the start.  window_s, fewest: least seconds and first tokens of a window.  step, most_steps: how far a
    share moves at a time.  least: of a share.
    """

    decodes_alone: ClassVar[bool] = False
    lanes: ClassVar[bool] = True

    ttft_s: float = 0.3
    tpot_s: float = 0.15
    quantile: float = 0.9
    share: float = 1.0
    decode_share: float = 1.0
    window_s: float = 5.0
    fewest: int = 20
    step: float = 0.05
    most_steps: int = 4
    least: float = 0.1
    _begun_at: int = field(default=0, init=False, repr=False, compare=False)
    _ends_at: int = field(default=0, init=False, repr=False, compare=False)
    _ttft: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    _prompts: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    _decoding_from: int = field(default=-1, init=False, repr=False, compare=False)
    _decoded: int = field(default=0, init=False, repr=False, compare=False)
    _steps: tuple[int, int] = field(default=(0, 0), init=False, repr=False, compare=False)
    _windows: deque[tuple[float, float, float, float, float]] = field(
        default_factory=lambda: deque(maxlen=KEPT), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if min(self.ttft_s, self.tpot_s, self.window_s, self.step) <= 0 or self.most_steps < 0 or self.fewest < 1:
            raise ValueError("ttft_s, tpot_s, window_s, fewest and step are above 0, and most_steps is 0 or more")
        if not 0 < self.least <= min(self.share, self.decode_share) or max(self.share, self.decode_share) > 1:
            raise ValueError("least is above 0, and share and decode_share lie in [least, 1]")
        if not 0 < self.quantile <= 1:
            raise ValueError("quantile lies in (0, 1]")

    def served(self, request: RequestView, tokens: int, now: int) -> None:
        """A request made its first token, or its last."""
        if tokens == 1:
            self._ttft.append((now - request.arrived_at) / SECOND)
            self._prompts.append(request.prompt_tokens)

    def batch(self, lane: LaneView) -> Batch:
        """As `Chunked`, on this lane's share, until the window ends."""
        if lane.spec.decode:
            self._watch(lane)
        if lane.now >= self._ends_at and (len(self._ttft) >= self.fewest or not self._ends_at):
            if self._ends_at:
                self._look(lane)
            self._begun_at, self._ends_at = lane.now, lane.now + ps(self.window_s)
        batch = Chunked.batch(self, lane)
        if lane.spec.prefill and lane.spec.decode:
            return batch
        share = self.share if lane.spec.prefill else self.decode_share
        wake_at = self._ends_at if lane.decoding and self._ends_at > lane.now else 0
        return Batch(batch.entries, batch.decode, batch.hold, share, wake_at=wake_at)

    def _watch(self, lane: LaneView) -> None:
        """Count the decode steps since the last batch, and the time that they took."""
        if self._decoding_from >= 0:
            self._decoded += lane.now - self._decoding_from
        self._decoding_from = lane.now if lane.decoding else -1
        self._steps = self._steps[0], lane.decode_steps

    def _look(self, lane: LaneView) -> None:
        """A window is over: move the shares if one limit is missed and the other is not."""
        begun, ended = self._steps
        work = sum([lane.predict((Chunk(tokens, 0),), NONE, share=1.0) for tokens in self._prompts])
        load = work / (lane.now - self._begun_at)
        ttft, decoded = _quantile(self._ttft, self.quantile), self._decoded
        self._ttft, self._prompts, self._decoded, self._steps = [], [], 0, (ended, ended)
        if ended == begun:
            return
        tpot = decoded / SECOND / (ended - begun)
        parts = self._part(self.share, self.decode_share), self._part(self.decode_share, self.share)
        self._windows.append((*parts, load, ttft, tpot))
        late, slow = ttft > self.ttft_s, tpot > self.tpot_s
        if late and not slow:
            self.share, self.decode_share = self._moved(self.share, self.decode_share, self._predict_ttft(load))
        elif slow and not late:
            self.decode_share, self.share = self._moved(self.decode_share, self.share, self._predict_tpot())

    def _part(self, own: float, other: float) -> float:
        """The part of the device that a lane has beside the other one."""
        return own / max(1.0, own + other)

    def _moved(self, own: float, other: float, kept: Callable[[float], bool]) -> tuple[float, float]:
        """The shares of the lane that misses its limit and of the other, moved until the limit is predicted kept."""
        for _ in range(self.most_steps):
            if kept(self._part(own, other)):
                break
            if own < 1:
                own = round(min(own + self.step, 1.0), 6)
            else:
                other = round(max(other - self.step, self.least), 6)
        return own, other

    def _predict_ttft(self, load: float) -> Callable[[float], bool]:
        """Whether prompts are predicted in time with a part of the device."""
        slope, rest = fitted([(1 / max(x - at, 0.01), ttft) for x, _, at, ttft, _ in self._windows])
        return lambda part: slope / max(part - load, 0.01) + rest <= self.ttft_s

    def _predict_tpot(self) -> Callable[[float], bool]:
        """Whether decodes are predicted in time with a part of the device."""
        slope, rest = fitted([(1 / y, tpot) for _, y, _, _, tpot in self._windows])
        return lambda part: slope / part + rest <= self.tpot_s


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]
