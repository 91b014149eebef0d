"""The exchange of tokens between data ranks around routed experts: to the experts' ranks only, or to all ranks."""

from __future__ import annotations

from poise.core.spec import Pool
from poise.cost.coefficients import ACTIVATION_BYTES, Builder
from poise.cost.links import Links, Seconds
from poise.cost.tables import Curve, lacking

HOST = 4
"""Devices of a host in scale-up domains of more than two hosts (GB200 and GB300 NVL72)."""

FEW = 1024
"""Tokens of a rank up to which DeepEP's low-latency mode serves; more go by the normal mode. Engines keep room for as
many as their batches hold, 128 by default (`SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK`), recipes for 512 and 1,024
(NVIDIA/srt-slurm); beyond, nothing was measured."""

LOW_LATENCY = "deepep ll"
NORMAL = "deepep sms 20"
"""The table of DeepEP's normal mode with as many SMs as it takes by default (`Buffer.num_sms`)."""


class Exchange:
    """One pool's exchange.  form: the table format of experts' weights.  seconds: of an average layer, by tokens."""

    def __init__(self, pool: Pool, form: str, links: Links, roofline: Builder) -> None:
        self.pool, self.model, self.form, self.links = pool, pool.model, form, links
        self.roofline, self._part = roofline, roofline.moe
        self.seconds = self._made()

    @property
    def dispatches(self) -> bool:
        """Whether tokens go only to the ranks of their experts, so that kernels see none that others need."""
        pool = self.pool
        if self.model.moe is None or pool.expert == 1 or pool.data == 1 or pool.engine.expert_exchange == "gather":
            return False
        return pool.engine.expert_exchange == "all_to_all" or self._by_recipe

    @property
    def _by_recipe(self) -> bool:
        """Whether published recipes of the engine have it so.

        vLLM and SGLang gather all tokens on every rank unless configured otherwise (`all2all_backend`,
        `moe-a2a-backend`). Published recipes configure SGLang so where experts spread over hosts that one scale-up
        domain joins, and nearly nowhere else (NVIDIA/srt-slurm, 2026-04). TensorRT-LLM gathers where a token goes to
        as many experts as there are ranks, and where NVLink does not join all (`select_alltoall_method_type`).
        """
        pool, moe = self.pool, self.model.moe
        if moe is None or self.links.engine == "vllm":
            return False
        if self.links.engine == "sglang":
            return HOST < pool.expert <= pool.device.scaleup_domain > 2 * HOST
        joined = pool.device.scaleup_bw > 0 and pool.expert <= pool.device.scaleup_domain
        return (joined and pool.expert > moe.active) if self.links.engine == "trtllm" else True

    def _made(self) -> Seconds:
        """Seconds of an average layer's exchange, by a rank's tokens."""
        pool, moe = self.pool, self.model.moe
        if moe is None or pool.data == 1:
            return lambda tokens: 0.0
        if not self.dispatches:
            return self._gathering()
        if pool.tensor * pool.data > pool.device.scaleup_domain or not self._by_recipe:  # not measured
            return self.roofline.exchange().at
        token = moe.width(self.model.hidden) * ACTIVATION_BYTES / pool.tensor
        size, once = token * moe.active, token * pool.expert * (1 - (1 - 1 / pool.expert) ** moe.active)
        if self.links.engine == "trtllm":
            width = "nvfp4" if self.form == "nvfp4" else "bfloat16"
            only = self._ways("", f"NVLink {width}")
            return lambda tokens: self._part * only(tokens * size)
        few, many = self._ways("", LOW_LATENCY), self._ways("_normal", NORMAL)
        return lambda tokens: self._part * (few(tokens * size) if tokens <= FEW else many(tokens * once))

    def _gathering(self) -> Seconds:
        """Seconds of an exchange in which all tokens go to every rank, and their experts' sums come back."""
        pool = self.pool
        ranks = pool.tensor * pool.data
        gather, scatter = self.links.gather(ranks), self.links.scatter(ranks)
        if gather is None or scatter is None:
            return self.roofline.exchange(gathers=True).at
        moe = self.model.moe
        values = (moe.width(self.model.hidden) if moe else 0) * pool.data
        sent, back = values * self._sent_bytes, values * ACTIVATION_BYTES
        return lambda tokens: self._part * (gather(tokens * sent) + scatter(tokens * back))

    @property
    def _sent_bytes(self) -> float:
        """Bytes of a value that is gathered: TensorRT-LLM quantises before, with a scale of a byte for each 16 values
        of four bits; others, and FP8 by blocks, send 16 bits."""
        if self.links.engine != "trtllm":
            return ACTIVATION_BYTES
        return {"nvfp4": 0.5 + 1 / 16, "fp8": 1.0, "mxfp4_fp8": 1.0}.get(self.form, ACTIVATION_BYTES)

    def _ways(self, mode: str, kernel: str) -> Seconds:
        """Seconds of both ways of an exchange in a mode, by the bytes that a rank sends."""
        ways = [self._named(kind + mode, kernel) for kind in ("dispatch", "combine")]
        slices = [way.slice(1, self.pool.expert) for way in ways]
        return lambda size: sum(way.seconds(size) for way in slices)

    def _named(self, kind: str, kernel: str) -> Curve:
        """The curve of an exchange's kernel, remembered for provenance."""
        links = self.links
        found = links.tables.curve(kind, links.device, "bf16", links.engine, kernel)
        if found is None:
            raise lacking(kind)
        links.curves[f"{kind} {kernel}"] = found
        return found
