"""One step of training as a point of a table: what a step file says of it, as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from poise.core.model import Model
from poise.core.spec import Device
from poise.cost.training import Job
from poise.cost.training.step import Prediction
from poise.pipeline.saved import load_seconds
from poise.scenario.place import Places
from poise.scenario.step.passes import Links, hows
from poise.scenario.step.schema import LayoutSection
from poise.scenario.step.world import Jitter, laid, ran


def step(
    model: Model, device: Device, devices: int, batch: int, sequence: int, layout: Mapping[str, Any], *,
    schedule: str = "one_f_one_b", node: int = 0, nic_bw: float = 0.0,
    jitter: Jitter | None = None, draw: int = 0, job: Mapping[str, Any] | None = None, links: Links = "none",
    passes: Sequence[Any] = (), costs: str | Path | None = None,
) -> Prediction:  # fmt: skip
    """The step that `kind: step` simulates for one layout and schedule; `layout` has the fields of a step file's.

    nic_bw: bytes/s of a device between servers, 0 its own.  draw: the seed of the jitter.  job: further fields of a
    `Job`, as {attention = "fused", precision = "fp8"}.  links, passes, costs: as in a step file, passes in one list.
    Seconds, bytes and parts of the step. ScenarioError for a layout or passes that cannot be, and a pydantic error for
    a field that layouts do not have.
    """
    known = LayoutSection.model_validate(dict(layout)).model_dump(exclude={"name"})
    task = Job(model, device, devices, sequence, batch, node=node, nic_bw=nic_bw, **(job or {}))
    seconds = None if costs is None else load_seconds(costs)
    (how,) = hows(links, [list(passes)], seconds, Places("step")).values()
    return ran(*laid({"job": task, "layout": {**known, "schedule": schedule}}), jitter or Jitter(), draw, how)
