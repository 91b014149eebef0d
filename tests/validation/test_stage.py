"""Layer times of machines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from poise.catalogue import device, model
from poise.core.errors import TraceError
from poise.core.estimate import StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Measured
from poise.validation.peer import FILE, read_peers
from poise.validation.stage import CONTEXT, read_stages

HEAD = "model,machine,phase,batch_or_tokens,time_ms\n"


def _file(folder: Path, text: str) -> Path:
    path = folder / "times.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_a_layer_is_a_step_without_head_and_host(tmp_path: Path) -> None:
    (answer,), faults = read_stages(_file(tmp_path, HEAD + "llama2_70b,a100,decode,8,1.5\n"))
    assert faults == []
    found = model("llama-2-70b")
    piece = Measured().build(Pool(found, device("A100"))).step(StepShape(8))
    step = (piece.base + 8 * CONTEXT * piece.per_kv) / SECOND * 1e3
    assert answer.predicted is not None
    assert 0.9 * step / found.layers < answer.predicted < step / found.layers


def test_machines_may_have_several_devices_and_may_be_unknown(tmp_path: Path) -> None:
    text = HEAD + "llama1_30b,t4x4,prompt,64,1.0\nllama1_30b,abacus,prompt,64,1.0\nllama1_30b,t4,decode,0,0.0\n"
    answers, _ = read_stages(_file(tmp_path, text))
    assert [(each.row.device, each.row.tensor, each.predicted is not None) for each in answers] == [
        ("t4", 4, True),
        ("abacus", 1, False),
    ]


def test_broken_tables_are_one_line(tmp_path: Path) -> None:
    _, faults = read_stages(_file(tmp_path, HEAD + "llama1_30b,t4,prompt,x,1.0\n"))
    assert faults == ["times.csv.gz: line 2: batch_or_tokens and time_ms must be numbers"]
    with pytest.raises(TraceError, match="column time_ms is missing"):
        read_stages(_file(tmp_path, "model,machine,phase,batch_or_tokens\n"))
    path = tmp_path / "plain.csv.gz"
    path.write_bytes(b"plain")
    with pytest.raises(TraceError, match="the gzip stream is broken"):
        read_stages(path)


def test_published_errors_are_kept_by_metric(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    assert read_peers(tmp_path) == {}
    path.write_bytes(gzip.compress(b"simulator,metric_name,count,median,mean\nx,e2e_p90,3,20.5,21\n"))
    assert read_peers(tmp_path) == {"e2e_latency_p90_ms": {"x": pytest.approx(0.205)}}
    path.write_bytes(gzip.compress(b"simulator\nx\n"))
    with pytest.raises(TraceError, match="cannot be read"):
        read_peers(tmp_path)
