"""The size of a decoder, checked before PyTorch is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.errors import UserError


@dataclass(frozen=True)
class Size:
    """What a decoder is made of; `layers` counts pairs of attention and feed-forward."""

    layers: int = 8
    hidden: int = 32
    heads: int = 4
    vocabulary: int = 64
    length: int = 32

    def check(self) -> None:
        """UserError for a size that cannot be."""
        for name in ("layers", "hidden", "heads", "vocabulary", "length"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} {getattr(self, name)}: give 1 or more")
        if self.hidden % self.heads:
            raise UserError(
                f"hidden {self.hidden} does not divide into {self.heads} heads; give a multiple of {self.heads}"
            )


def check_stages(layers: int, stages: int) -> None:
    """UserError if the layers, which may be cut between attention and feed-forward, do not make equal stages."""
    if 2 * layers % stages:
        fits = next(more for more in range(layers + 1, layers + stages + 1) if 2 * more % stages == 0)
        raise UserError(
            f"{layers} layers are {2 * layers} parts (attention and feed-forward), which do not divide into {stages} "
            f"stages; give {fits} layers"
        )
