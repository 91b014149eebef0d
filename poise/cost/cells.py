"""Layouts cell by cell: attention in data ranks, and the feed-forward block cut over all of them, of models without
experts.

APEX (Lin et al., arXiv 2411.17651) gives attention and feed-forward cells templates of their own. A data rank of a pool
holds all of a dense feed-forward block; as a block with one expert that every token takes it is cut over tensor × data
ranks instead, to which tokens are gathered and from which sums are scattered. The activation between its products is
then not counted, up to a twentieth of a step of prompts.
"""

from __future__ import annotations

from dataclasses import replace

from poise.core.layer import Moe
from poise.core.model import Model
from poise.cost.roofline import Roofline


def cut(model: Model) -> Model:
    """The model with dense feed-forward blocks cut over all ranks of a replica; one with experts as it is."""
    if model.moe is not None or model.stack:
        return model
    return replace(model, moe=Moe(experts=1, active=1, ffn=model.ffn, layers=model.layers))


def priced(roofline: Roofline) -> Roofline:
    """The roofline with a lone expert's products at the efficiencies and fixed times of dense ones."""
    return replace(
        roofline, moe_gemm=roofline.gemm_bf16, moe_stream=roofline.stream_bf16, moe_s=2 * roofline.gemm_s
    )  # fmt: skip
