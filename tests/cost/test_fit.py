"""The stated efficiencies are what `bench/fit_roofline.py` reads from the measurements."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from statistics import median

import pytest

from poise.cost import Roofline

BENCH = Path(__file__).parents[2] / "bench" / "fit_roofline.py"
DIRECT = [name for name in Roofline.__dataclass_fields__ if name.startswith(("gemm_", "stream_", "attention_", "mla_"))]
DIRECT = [name for name in DIRECT if not name.endswith("_s")]
MICROSECONDS = {
    "gemm_s": "gemm_fixed_us_bf16",
    "attention_s": "attention_fixed_us",
    "light_s": "light_kernel_us",
    "collective_s": "collective_fixed_us",
    "sample_s": "sample_fixed_us",
    "sample_sequence_s": "sample_us_per_sequence",
}
OVER_FORMATS = {"moe_gemm": "moe_gemm_", "moe_stream": "moe_stream_"}


def test_defaults_are_the_fitted_medians(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(data_dir))
    spec = importlib.util.spec_from_file_location("fit_roofline", BENCH)
    assert spec
    assert spec.loader
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    rows = {name: median(values.values()) for name, values in bench.table().items()}
    fitted = {name: rows[name] for name in DIRECT} | {"link": rows["link_efficiency"]}
    fitted |= {name: rows[row] * 1e-6 for name, row in MICROSECONDS.items()}
    for name, start in OVER_FORMATS.items():
        fitted[name] = median(value for row, value in rows.items() if row.startswith(start))
    fixed = {form: rows[f"gemm_fixed_us_{form}"] for form in ("fp8", "int8", "int4", "fp4")}
    fitted["quantised_gemm_s"] = median(fixed.values()) * 1e-6
    fitted["moe_s"] = median(value for row, value in rows.items() if row.startswith("moe_fixed_us_")) * 1e-6
    stated = {name: getattr(Roofline(), name) for name in fitted}
    assert stated == pytest.approx(fitted, rel=0.03)
