"""Runs by their columns and notes: what is read, what is assumed, and what stays silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.cost.training import predict
from poise.cost.training.layout import ALTERNATE
from poise.validation.training.answer import answer, read_runs
from poise.validation.training.recipes import recipe
from poise.validation.training.stated import RANK, SKEW, stated
from poise.validation.training.table import read_tables
from poise.validation.training.words import SilentError
from tests.validation.training.made import made, table

TITAN = {
    "source": "github:pytorch/torchtitan:x", "model": "Llama3.1-8B", "n_gpus": "8", "tp": "1", "pp": "1", "vpp": "",
    "seq": "", "micro_batch": "", "global_batch": "", "recompute": "selective", "precision": "bf16",
    "schedule": "FSDP+compile", "notes": "local batch 2; ",
}  # fmt: skip


def test_degrees_batch_and_schedule() -> None:
    job, layout, quality, assumed, _ = stated(made(schedule="interleaved 1F1B", recompute="none"))
    assert (job.devices, job.sequence, job.batch, job.precision) == (64, 8192, 128, "fp8")
    assert (layout.tensor, layout.pipeline, layout.data, layout.chunks) == (4, 8, 2, 5)
    assert (layout.schedule, layout.zero, layout.recompute) == ("interleaved", 1, "none")
    assert (quality, assumed) == ("A", ())


def test_the_least_recomputation_that_fits_is_assumed() -> None:
    """Llama-3 70B on 64 H100 fits as it is; with sequences four times as long something must be computed again."""
    _, layout, quality, assumed, _ = stated(made())
    assert (layout.recompute, quality, assumed) == ("none", "B", ("recompute none",))
    longer, layout, *_ = stated(made(seq="32768"))
    assert layout.recompute != "none"
    assert predict(longer, layout).fits(longer)


def test_torchtitan_compiles_or_not_and_selects_by_operation() -> None:
    job, layout, _, assumed, _ = stated(made(**TITAN))
    assert (job.host, job.fused, job.attention, job.sequence, job.batch) == ("torch", "all", "flash2", 8192, 16)
    assert (layout.zero, layout.data, layout.micro_batch, layout.operations) == (3, 8, 2, ALTERNATE)
    assert "seq 8192" in assumed
    eager, *_ = stated(made(**{**TITAN, "schedule": "FSDP"}))
    assert eager.fused == "none"


def test_adapters_are_found_in_names_and_notes() -> None:
    fields = {"model": "Llama-2-70B LoRA", "tp": "2", "pp": "1", "vpp": "", "n_gpus": "16", "global_batch": "8"}
    assert stated(made(**fields))[0].adapters == RANK
    assert stated(made(**fields, notes="LoRA fine-tuning, rank 32"))[0].adapters == 32


def test_experts_routing_and_folding() -> None:
    fields = {"source": "arXiv:2504.14960", "model": "Qwen2-57B-A14B", "pp": "4", "vpp": "", "ep": "4", "tp": "2"}
    notes = "ETP=; token drop"
    job, layout, *_ = stated(made(**fields, notes=notes, schedule="MCore"))
    assert (layout.expert, layout.expert_tensor, job.once) == (4, 2, False)
    assert stated(made(**fields, notes="ETP=1; x", schedule="MCore w/ Folding"))[1].expert_tensor == 1
    natural = stated(made(**fields, notes="dropless, natural routing"))[0]
    assert (natural.skew, job.skew) == (SKEW[4], 1.0)


@pytest.mark.parametrize(
    ("table_name", "model", "host", "attention"),
    [
        ("25.11 NeMo Container", "GPT OSS 120B", "launched", "fused"),
        ("26.04 NeMo Container", "Qwen3_30B_a3B", "", "flash"),
        ("26.06 NeMo Container", "Qwen3_30B_a3B", "captured", "flash"),
        ("25.09 NeMo Container", "Qwen3_30B_a3B (tokendrop)", "", "flash"),
        ("26.04 NeMo Container", "GPT OSS 120B", "launched", "fused"),
        ("26.08 NeMo Container", "GPT OSS 120B", "captured", "flash"),
        ("26.08 NeMo Container", "LLAMA3_70B", "", "flash"),
    ],
)
def test_releases_launch_experts_in_their_own_way(table_name: str, model: str, host: str, attention: str) -> None:
    fields = {"source": "github:NVIDIA-NeMo/Megatron-Bridge:x", "table": table_name, "model": model, "pp": "1"}
    job, *_ = stated(made(**fields, tp="1", vpp="", n_gpus="64", hardware="DGX-GB200", precision="MXFP8"))
    assert (job.host, job.attention) == (host, attention)


def test_recipes_state_what_tables_leave_out() -> None:
    """The newest recipe that is not newer than the release; none for a device or a precision without one."""
    fields = {
        "source": "github:NVIDIA-NeMo/Megatron-Bridge:x",
        "model": "Qwen3_30B_a3B",
        "tp": "1",
        "pp": "1",
        "vpp": "",
    }
    job, layout, quality, assumed, _ = stated(made(**fields, table="26.04 NeMo Container", hardware="DGX-B200"))
    assert (job.once, job.paired, job.host, layout.recompute, quality, assumed) == (True, False, "", "none", "A", ())
    job, *_ = stated(made(**fields, table="26.02 NeMo Container", hardware="DGX-B200"))
    assert (job.once, job.host) == (False, "launched")  # all-to-all: the host waits for counts
    found = recipe((26, 3, 0), "DeepSeek-V3", "H100", "fp8")
    assert found == recipe((26, 2, 0), "DeepSeek-V3", "H100", "fp8") and found is not None
    assert (found.operations, found.once) == (("mla",), True)
    assert recipe((25, 9, 0), "DeepSeek-V3", "H100", "fp8") is None
    assert recipe((26, 4, 0), "DeepSeek-V3", "A100", "fp8") is None
    drops, *_ = stated(made(**{**fields, "model": "Qwen3_30B_a3B (tokendrop)"}, table="25.09 NeMo Container"))
    assert not drops.once


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tp": ""}, "tp is not stated"),
        ({"n_gpus": ""}, "n_gpus is not stated"),
        ({"vpp": "", "schedule": "interleaved 1F1B"}, "vpp is not stated"),
        ({"n_gpus": "72"}, r"tp 4 x pp 8 x cp 1 does not divide 72 devices"),
        ({"source": "github:mlcommons/training", "precision": ""}, "the precision is not stated"),
        ({"metric": "iteration_time", "micro_batch": "", "global_batch": ""}, "neither the batch nor the microbatch"),
    ],
)
def test_what_cannot_be_assumed_is_named(fields: dict[str, str], why: str) -> None:
    with pytest.raises(SilentError, match=why):
        stated(made(**fields))


def test_every_table_of_a_folder_is_read(tmp_path: Path) -> None:
    """Whatever its name and collection; a table of other columns is named, a broken row too."""
    for place, text in (
        ("fidelity_training/new.csv", table(made(), made(metric="MFU", value="39", unit="%"))),
        ("more/fidelity_training/other.csv", table(made(model="unknown"), made(value="-1"))),
        ("fidelity_training/notes.csv", "a,b\n1,2\n"),
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    runs, faults = read_tables(tmp_path)
    assert [(run.source, run.why) for run in runs] == [
        ("new", ""), ("other", "the shape of unknown is not in the catalogue")
    ]  # fmt: skip
    assert runs[0].value == pytest.approx(128 * 8192 / (1621 * 64))
    assert faults[0].startswith("notes.csv: has no column source, model, hardware")
    assert faults[1] == "other.csv: line 3: value is '-1'; a number above 0 is needed"


def test_utilisation_and_throughput_of_one_run_agree(tmp_path: Path) -> None:
    """MFU from the predicted step gives that step back, so conversion and prediction count the same FLOP."""
    row = made(source="x", metric="MFU", unit="%", recompute="none")
    job, layout, *_ = stated(row)
    folder = tmp_path / "fidelity_training"
    folder.mkdir()
    share = 100 * predict(job, layout).mfu
    (folder / "x.csv").write_text(table({**row, "value": f"{share:.9f}"}))
    (run,), _ = read_runs(tmp_path)
    assert answer(run).off == pytest.approx(0, abs=1e-6)
