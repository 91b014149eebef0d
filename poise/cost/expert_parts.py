"""The two sides of a step whose routed experts are served apart: attention clients, and expert servers with their hops.

What `poise.cost.terms.expert_as_a_service` puts together. Clients are data ranks without routed experts; a server
computes its even part of all tokens' experts, and reads those that are touched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from poise.core.estimate import StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.coefficients import ACTIVATION_BYTES, Builder, Coefficients, derive
from poise.cost.efficiency import Efficiencies
from poise.cost.step import RooflineEstimator


class Share(NamedTuple):
    """Picoseconds of a layer's experts on `servers` of a pool's devices, and of the hops to them and back.

    fixed, token: a server's kernels, and its arithmetic for each token of the step.  weights, miss: reading all
    its experts, of which the tokens miss `miss` each.  sent_fixed, sent: the hops, and per token of the step.
    """

    fixed: float
    token: float
    weights: float
    miss: float
    sent_fixed: float
    sent: float

    def computed(self, tokens: float) -> float:
        """Experts' time for `tokens` tokens: the larger of arithmetic and of reading the experts in use."""
        return self.fixed + max(self.token * tokens, self.weights * (1 - float(self.miss**tokens)))

    def hops(self, tokens: float) -> float:
        """Dispatch and combine of `tokens` tokens."""
        return self.sent_fixed + self.sent * tokens


def share(pool: Pool, use: Efficiencies, clients: int, sms: float) -> Share:
    """What the devices of `pool` that are no clients do, in a lane with `sms` of the SMs.

    The side with fewer devices has more to send of each token: hidden · active values there and back. Each device sends
    to all of the other side, one after another where no switch joins them (`poise.cost.collective`).
    """
    builder, k = Builder(pool, use, sms), derive(pool, use, sms)
    servers, link = pool.data - clients, builder.link(pool.devices)
    moe = pool.model.moe
    assert moe is not None
    rounds = 2 * builder.moe * SECOND
    size = pool.model.hidden * ACTIVATION_BYTES * moe.active / min(clients, servers)
    return Share(
        builder.moe * use.moe_s * SECOND,
        k.expert_token / servers,
        k.expert_weights * pool.data / servers,
        1 - moe.active / moe.experts,
        rounds * link.latency_s * (1 if link.direct else max(clients, servers)),
        rounds * size / link.bandwidth,
    )


class Clients(RooflineEstimator):
    """Steps of attention clients: data ranks of a model whose routed experts are elsewhere, and no exchange."""

    def __init__(self, pool: Pool, use: Efficiencies, clients: int) -> None:
        super().__init__(alone(pool, clients), use)

    def _derive(self, pool: Pool, share: float) -> Coefficients:
        builder, k = Builder(pool, self.use, share), derive(pool, self.use, share)
        line = builder.exchange()
        fixed = k.fixed - (line.fixed_s + builder.moe * self.use.moe_s) * SECOND
        return replace(k, fixed=fixed, linear=k.linear - line.per_byte_s * SECOND)

    def cut(self, tokens: float, parts: int, share: float) -> float:
        """Picoseconds added to a layer by tokens of all clients in equal parts."""
        k, rank = self._lane(share), max(1.0, tokens / self.pool.data)
        return parts * k.layer(rank / parts) - k.layer(rank)

    def outside(self, shape: StepShape) -> float:
        """Picoseconds of a step that are no layers': the host's, the output head's."""
        k, n = self._lane(shape.share), shape.decodes + len(shape.chunks)
        return self._host(k, n) + k.last(max(1.0, n / self.pool.data))


def alone(pool: Pool, clients: int) -> Pool:
    """Attention clients of `pool`: data ranks of its model whose routed experts weigh nothing."""
    moe = pool.model.moe
    assert moe is not None
    return replace(pool, model=replace(pool.model, moe=replace(moe, ffn=0, bias=0)), data=clients, expert=1)
