"""torchtitan's composition: what each optimization adds, and that every mesh of four axes has its settings."""

from __future__ import annotations

from itertools import product

import pytest

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, shape
from poise.plan.training.composed import composed
from poise.plan.training.exports.torchtitan import torchtitan, torchtitan_main
from tests.plan.training.exports.checker import torchtitan_fields

MODEL = shape(16, 2048, 16, kv_heads=8, gated=True, tied=False)
AXES = list(product((1, 2), repeat=4))
"""Data, tensor, pipeline and context ranks, each alone and with every other."""


def _job(devices: int) -> Job:
    return Job(MODEL, device("H100"), devices, 4096, 32)


def test_compilation_and_asynchronous_collectives_shorten_the_step_where_there_is_something_to_hide() -> None:
    one, two = Layout(data=8, zero=3), Layout(tensor=4, data=2, zero=3)
    assert composed(_job(8), one, compiled=False).seconds > composed(_job(8), one).seconds
    assert composed(_job(8), two).seconds > composed(_job(8), two, async_tensor=True).seconds
    assert composed(_job(8), one).seconds == composed(_job(8), one, async_tensor=True).seconds


@pytest.mark.parametrize(("data", "tensor", "pipeline", "context"), AXES)
def test_every_composition_has_its_settings(data: int, tensor: int, pipeline: int, context: int) -> None:
    devices = data * tensor * pipeline * context
    zero = 3 if pipeline == 1 else 2
    layout = Layout(tensor=tensor, pipeline=pipeline, data=data, context=context, zero=zero)
    for version, export in (("torchtitan", torchtitan), ("torchtitan-main", torchtitan_main)):
        files = export(_job(devices), layout)
        text = next(text for name, text in files.items() if name.endswith(".py"))
        fields = torchtitan_fields(text, version)["ParallelismConfig"]
        names = ("data_parallel_shard", "tensor_parallel", "pipeline_parallel", "context_parallel")
        assert [fields[f"{name}_degree"] for name in names] == [data, tensor, pipeline, context]
        assert fields["data_parallel_replicate_degree"] == 1
    assert composed(_job(devices), layout).seconds > 0
