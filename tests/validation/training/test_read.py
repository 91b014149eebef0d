"""Readers on tables made by hand, and on the measured ones where they are."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from poise.cli import main
from poise.core.errors import TraceError
from poise.validation.training.answer import answer, read_runs
from poise.validation.training.layouts import FILE as LAYOUTS
from poise.validation.training.vtrain import FILES

VTRAIN = (
    "gpus,global_batch,micro_batch,hidden_size,attention_heads,layers,sequence_length,tensor_parallelism,"
    "data_parallelism,pipeline_parallelism,iteration_time_ms\n8,32,4,1024,16,24,1024,2,2,2,219.7\n"
)
LLAMA = (
    "run_group,World Size,Average Step Time,Average MFU,activation_checkpointing_type,kernel,micro_batch_size,"
    "model_parallel_size,pipe_parallel_size,sequence_parallel\n"
    "llama_13B_x,64,26.5,0.7,disabled,flash_attention2 + RMS kernel,1,1,1,\n"
    "llama_13B_x,64,OOM Error,OOM Error,disabled,torch,8,1,1,\n"
    "llama_13B_x,64,Other Error,Other Error,disabled,torch,8,1,1,\n"
)
TABLE = (
    "source,table,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,experts_active,hardware,n_gpus,tp,pp,vpp,dp,"
    "cp,ep,micro_batch,global_batch,recompute,precision,schedule,metric,value,unit,notes\n"
    "x,A100 80GB,MPT-3b,32,2560,20,20,10240,50368,2048,,,a100_80gb,8,1,1,,8,1,,10,160,none,amp_bf16,FSDP FULL_SHARD,"
    "throughput,10811,tokens/s/GPU,mp_mode=DEFAULT\n"
    "x,A100 80GB,MPT-3b,32,2560,20,20,10240,50368,2048,,,,8,1,1,,8,1,,10,160,none,amp_bf16,FSDP FULL_SHARD,"
    "throughput,10811,tokens/s/GPU,mp_mode=DEFAULT\n"
)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def test_runs_are_read_with_their_conditions(tmp_path: Path) -> None:
    _write(tmp_path / FILES["vtrain_single_node"], VTRAIN)
    _write(tmp_path / LAYOUTS, LLAMA)
    _write(tmp_path / "fidelity_training" / "llm_foundry_mpt.csv", TABLE)
    runs, faults = read_runs(tmp_path)
    assert not faults
    assert [(run.source, run.metric) for run in runs] == [
        ("vtrain_single_node", "step_time"), ("llama_layouts_a100", "step_time"), ("llama_layouts_a100", "fits"),
        ("llama_layouts_a100", "fits"), ("llm_foundry_mpt", "step_time"), ("llm_foundry_mpt", "step_time"),
    ]  # fmt: skip
    assert runs[0].value == pytest.approx(0.2197)
    assert runs[0].layout is not None
    assert (runs[0].layout.tensor, runs[0].layout.data, runs[0].layout.pipeline) == (2, 2, 2)
    assert runs[2].value == 1
    assert runs[3].value == 0
    assert runs[4].value == pytest.approx(160 * 2048 / (8 * 10811))
    assert runs[5].why == "hardware is not stated"
    assert answer(runs[5]).predicted is None
    assert all(answer(run).predicted is not None for run in runs[:5])


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / FILES["vtrain_single_node"]
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no gzip")
    with pytest.raises(TraceError, match="vtrain_single_node"):
        read_runs(tmp_path)


def test_validate_scores_training_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path / FILES["vtrain_single_node"], VTRAIN)
    _write(tmp_path / LAYOUTS, LLAMA)
    assert main(["validate", str(tmp_path), "--json", "-", "--jobs", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)
    named = {(row["source"], row["metric"], row["quality"]): row for row in rows}
    steps = named["vtrain_single_node", "step_time", "AB"]
    assert (steps["device"], steps["model"], steps["n"], steps["answered"]) == ("A100-SXM-80GB", "GPT 24x1024", 1, 1)
    assert named["all", "step_time", "A"]["n"] == 1
    assert named["all", "fits", "AB"]["n"] == 2
    table = tmp_path / "answers.csv"
    words = ["validate", str(tmp_path), "--jobs", "1", "--answers", str(table), "--out", str(tmp_path / "page")]
    assert main(words) == 0
    first = next(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert (first["source"], first["value"], first["n_gpus"]) == ("vtrain_single_node", "0.2197", "8")
    assert first["concurrency_or_rate"].startswith("batch 32: tp 2, pp 2, dp 2")
    assert float(first["predicted"]) > 0
    assert capsys.readouterr().out.startswith("Training runs: step time off by ")
    assert main(["validate", str(tmp_path), "--jobs", "1", "--tables"]) == 0
    assert "Training runs by source" in capsys.readouterr().out
    page = (tmp_path / "page" / "validate.html").read_text(encoding="utf-8")
    assert "2 values</small></figcaption>" in page and "Training runs</h2>" in page
    assert "complete conditions" in page and "vtrain_single_node" in page


def test_a_broken_row_is_named_and_left_out(tmp_path: Path) -> None:
    _write(tmp_path / FILES["vtrain_single_node"], VTRAIN + "8,32,4,1024,16,24,1024,2,2,2,fast\n")
    runs, faults = read_runs(tmp_path)
    assert len(runs) == 1
    assert faults == ["vtrain_single_node.csv.gz: line 3: iteration_time_ms is 'fast'; a number above 0 is needed"]
