"""The built-in accelerators against the measured catalogue, and their laws."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from poise.catalogue import bases, device, devices
from poise.core.errors import UserError
from poise.core.spec import Device

GIB = 1 << 30


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("H100", "H100-SXM-80GB"),
        ("h100_sxm", "H100-SXM-80GB"),
        ("H100-SXM", "H100-SXM-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM-80GB"),
        ("h100 pcie", "H100-PCIe-80GB"),
        ("A100", "A100-SXM-80GB"),
        ("a100-80gb", "A100-SXM-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("a100-40gb", "A100-SXM-40GB"),
        ("H200", "H200-SXM-141GB"),
        ("B200", "B200-SXM-180GB"),
        ("l4", "L4"),
        ("L40S", "L40S"),
        ("AMD Instinct MI300X", "MI300X"),
        ("4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("rtx_pro_6000", "RTX-PRO-6000-Blackwell-Server"),
        ("RTX-PRO-6000-Blackwell", "RTX-PRO-6000-Blackwell-Server"),
        ("tpu_v5e", "TPU-v5e"),
        ("AWS Trainium2", "Trainium2"),
        ("NVIDIA Rubin", "VR200"),
        ("AMD Instinct MI455X", "MI455X"),
        ("NVIDIA A800-SXM4-80GB", "A800-SXM-80GB"),
        ("NVIDIA L40", "L40"),
        ("DGX Spark", "GB10"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000-Blackwell-Workstation"),
        ("RTX PRO 5000 72GB", "RTX-PRO-5000-Blackwell-72GB"),
        ("Intel(R) Arc(TM) Pro B70", "Arc-Pro-B70"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert device(alias).name == name


@pytest.mark.parametrize("each", devices(), ids=lambda each: each.name)
def test_every_device_is_found_by_its_name_and_says_where_its_figures_come_from(each: Device) -> None:
    assert device(each.name) is each
    assert each.source
    assert bool(each.price_per_hour) == bool(each.price_basis)


FP32_SUMS = {"RTX-3090", "RTX-4090", "RTX-5090"}
"""Devices on which FP16 with sums in FP32 is half as fast as INT8 would suggest."""


EIGHT_BITS_FIRST = {"TPU-8i", "VR200", "MI455X", "Trainium3"}
"""Devices whose units for 8 bits and fewer are several times those for 16."""


@pytest.mark.parametrize("each", devices(), ids=lambda each: each.name)
def test_peaks_are_dense(each: Device) -> None:
    """Halving the width at most doubles a dense peak (triples it for FP4 on Blackwell Ultra); sparsity would not."""
    assert each.fp8_flops <= (8.05 if each.name in EIGHT_BITS_FIRST else 2.05) * each.bf16_flops
    assert each.int8_ops <= 2.05 * each.bf16_flops or each.name in FP32_SUMS
    assert each.fp4_flops <= 3.05 * each.fp8_flops or each.name in FP32_SUMS


def test_well_known_figures() -> None:
    h100 = device("H100")
    assert (h100.bf16_flops, h100.fp8_flops, h100.memory_bw) == (989e12, 1979e12, 3.35e12)
    assert (h100.scaleup_bw, h100.scaleup_domain, h100.scaleout_bw) == (450e9, 8, 50e9)
    assert h100.tdp_w == 700


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'H300'.*H[12]00") as caught:
        device("H300")
    assert "\n" not in str(caught.value)


def test_a_price_is_taken_on_the_requested_basis() -> None:
    prices = bases("H100")
    assert len(prices) > 1
    for basis, dollars in prices.items():
        priced = device("H100", basis)
        assert (priced.price_per_hour, priced.price_basis) == (dollars, basis)
    assert device("H100").price_basis == next(iter(prices))


def test_a_basis_that_a_device_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(UserError, match=r"H200-SXM-141GB has no price on basis 'barter'; known are '3-year"):
        device("H200", "barter")
    with pytest.raises(UserError, match="known are none"):
        device("TPU-v4", "barter")


def test_the_table_agrees_with_the_measured_catalogue(data_dir: Path) -> None:
    """Each figure that hardware.csv states, in SI units; memory to 8 %, for drivers report less than the label."""
    with (data_dir / "fidelity" / "hardware.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "accelerator"]
    assert {row["name"] for row in rows} <= {each.name for each in devices()}
    for row in rows:
        each = device(row["name"])
        figures = {
            "peak_fp16_bf16_tflops": each.bf16_flops / 1e12,
            "peak_fp8_tflops": each.fp8_flops / 1e12,
            "peak_int8_tops": each.int8_ops / 1e12,
            "peak_fp4_tflops": each.fp4_flops / 1e12,
            "mem_bw_gbps": each.memory_bw / 1e9,
            "scaleup_bw_gbps_per_dir": (each.scaleup_bw or each.host_bw) / 1e9,  # it calls PCIe that, too
            "host_link_gbps_per_dir": each.host_bw / 1e9,
            "scaleout_gbit_s": each.scaleout_bw * 8 / 1e9,
            "tdp_w": each.tdp_w,
        }
        stated = {column: float(row[column]) for column in figures if row[column]}
        assert {column: figures[column] for column in stated} == pytest.approx(stated), each.name
        assert each.scaleup_domain == int(row["scaleup_domain"] or each.scaleup_domain), each.name
        assert each.memory_bytes == pytest.approx(float(row["mem_gb"]) * GIB, rel=0.08), each.name
        if row["price_usd_per_gpu_hour"]:
            assert each.price_per_hour == float(row["price_usd_per_gpu_hour"]), each.name
