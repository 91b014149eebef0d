"""Tables of whole modules, of experts that are sent their tokens, and of DeepEP, as kinds with their coordinates."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from poise.recordings.profiles.aiconfigurator import read
from poise.recordings.profiles.rows import coordinates

ABOUT = {"framework": "SGLang", "version": "0", "device": "NVIDIA H200"}


def kinds(root: Path, name: str, **columns: object) -> dict[str, pl.DataFrame]:
    """What a table with one row, or lists of rows, is read as."""
    path = root / "h200_sxm"
    path.mkdir()
    pl.DataFrame({**{key: value for key, value in columns.items() if isinstance(value, list)}}).with_columns(
        **{key: pl.lit(value) for key, value in {**ABOUT, **columns}.items() if not isinstance(value, list)}
    ).write_parquet(path / f"{name}.parquet")
    return dict(read(root))


def experts(**columns: object) -> dict[str, object]:
    shape = {"kernel_source": "k", "moe_dtype": "fp8_block", "hidden_size": 7168, "inter_size": 2048, "topk": 8}
    rest = {"num_experts": 256, "moe_tp_size": 1, "moe_ep_size": 32, "distribution": "uniform", "latency": 0.1}
    return {**shape, **rest, "num_tokens": [4096], **columns}


def test_experts_that_are_sent_their_tokens(tmp_path: Path) -> None:
    rows = kinds(tmp_path, "wideep_generation_moe", **experts(op_name="moe_generation"))["moe_ep"]
    assert rows["kernel"].item() == "k graph"
    load, expert, here, skew = coordinates("moe_ep", rows).row(0)
    assert (load, here, skew) == (4096 * 8 / 256, 256 / 32, 1)
    assert expert == 3 * 7168 * 2048


def test_copies_of_experts_share_their_load(tmp_path: Path) -> None:
    shape = experts(op_name="wideep_moe_eplb", num_slots=288, distribution="power_law_1.01_eplb")
    rows = kinds(tmp_path, "wideep_moe", **shape)["moe_ep"]
    assert rows["kernel"].item() == "k eplb"
    load, _, here, skew = coordinates("moe_ep", rows).row(0)
    assert (load, here, skew) == pytest.approx((4096 * 8 / 288, 288 / 32, 2.0**1.01))


def test_whole_attention_keeps_projections_and_cache_apart(tmp_path: Path) -> None:
    shape = {"op_name": "mla_context_module", "kernel_source": "k", "mla_dtype": "bfloat16", "kv_cache_dtype": "fp8"}
    size = {"gemm_type": "nvfp4", "num_heads": 16, "batch_size": 4, "step": 0, "latency": 0.1}
    found = kinds(tmp_path, "mla_context_module", **shape, **size, isl=[1, 512], framework="VLLM")
    rows = found["mla_prefill_module"]
    assert rows.select("format", "kernel", "batch", "new", "heads").rows() == [("nvfp4", "module kv8", 4, 512, 16)]


def test_a_token_goes_once_to_each_rank_in_normal_mode(tmp_path: Path) -> None:
    shape = {"kernel_source": "deepep", "node_num": 1, "hidden_size": 1000, "num_topk": 2, "num_experts": 64}
    times = {f"{way}_{part}": [1.0] for way in ("dispatch", "combine") for part in ("transmit_us", "notify_us")}
    found = kinds(tmp_path, "wideep_deepep_normal", **shape, **times, num_token=10, dispatch_sms=20, combine_sms=24)
    assert found["dispatch_normal"]["kernel"].item() == "deepep sms 20"
    assert found["combine_normal"].select("kernel", "us").row(0) == ("deepep sms 24", 2.0)
    reached = 8 * (1 - (7 / 8) ** 2)
    assert coordinates("combine_normal", found["combine_normal"]).row(0) == pytest.approx((2 * 10 * 1000 * reached, 8))
