"""Models that a pipeline trains: decoders built from a `config.json`, cut into stages, with their published names.

the seam   segment.py: Segment, Segmented; cut.py: stages of equal cost, tied weights; part.py: a stage's module
from keys  read.py, read_rope.py, read_experts.py: a Shape (shape.py), without PyTorch
parts      attention.py (grouped queries), latent.py (MLA), rope.py, norm.py, mlp.py, experts.py
models     decoder.py: Llama, Mistral, Qwen2, Qwen3, Mixtral, DeepSeek-V2; gpt2.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.runtime.models.shape import Shape

if TYPE_CHECKING:
    from poise.runtime.models.decoder import Decoder
    from poise.runtime.models.gpt2 import Gpt2


def build(shape: Shape) -> Decoder | Gpt2:
    """The model of a shape; under `torch.device("meta")` without memory."""
    if shape.family == "gpt2":
        from poise.runtime.models.gpt2 import Gpt2

        return Gpt2(shape)
    from poise.runtime.models.decoder import Decoder

    return Decoder(shape)
