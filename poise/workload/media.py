"""Images and audio that come with requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from poise.core.errors import ScenarioError
from poise.workload.draw import stream
from poise.workload.lengths import Spec, length
from poise.workload.rows import later
from poise.workload.table import Workload

MOST_SIDE = 16_384
"""Pixels of a side beyond which a typing mistake is likelier than intent."""


def media(
    base: Workload,
    *,
    images: Spec = 0,
    size: tuple[int, int] = (1024, 1024),
    audio_s: Spec = 0,
    share: float = 1.0,
    seed: int = 0,
) -> Workload:
    """Return `base` with images and audio for a `share` of its requests.

    images: how many of `size` (width, height in pixels); audio_s: seconds; numbers or distributions. Where the rows
    have images or audio already, only those that are 0 here are kept as they are.
    """
    if base.endless is not None:
        given: dict[str, Any] = {"images": images, "size": size, "audio_s": audio_s, "share": share}
        return later(base, lambda rows: media(rows, **given, seed=seed))
    if not 0 < share <= 1:
        raise ScenarioError(f"share {share:g} is no part of the requests; give above 0, up to 1")
    if not all(1 <= side <= MOST_SIDE for side in size):
        raise ScenarioError(f"size {list(size)} is no image; give width and height, 1 to {MOST_SIDE} pixels each")
    rows = len(base)
    chosen = stream(seed, "media share").random(rows) < share
    changed: dict[str, Any] = {"image_size": (int(size[0]), int(size[1]))}
    if images:
        drawn = length(images, "images").draw(stream(seed, "images"), rows)
        changed["images"] = np.where(chosen, np.clip(np.rint(drawn), 0, 1000), 0).astype(np.int16)
    if audio_s:
        drawn = length(audio_s, "audio_s").draw(stream(seed, "audio"), rows)
        changed["audio"] = np.where(chosen, np.clip(np.rint(1000 * drawn), 0, 2**31 - 1), 0).astype(np.int32)
    facts = {"images": images, "size": list(size), "audio_s": audio_s, "share": share, "seed": seed}
    return replace(base, **changed, source={**base.source, "media": facts})
