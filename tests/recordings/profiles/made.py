"""Profiles made from known coefficients, in the layouts that are read."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from poise.catalogue import device
from poise.cost.operator import OPERATORS, Shape

TRUTH = Shape(6e-6, 0.7, 0.8, 100.0, 200.0, 0.01, 0.01)
SIZES = tuple(2**power for power in range(8, 15))
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def products(shape: Shape = TRUTH, name: str = "H100", noise: float = 0.0) -> pl.DataFrame:
    """GEMMs of a device that follows the form exactly but for `noise`, in the AIConfigurator's columns."""
    kind = OPERATORS["gemm"]
    sizes = np.array(list(product(TOKENS, SIZES, SIZES)), dtype=float)
    seconds = kind.seconds(tuple(sizes.T), "bf16", kind.figures(device(name), "bf16"), shape)
    seconds = seconds * np.exp(noise * np.random.default_rng(1).standard_normal(len(seconds)))
    return pl.DataFrame(
        {
            "framework": "VLLM",
            "version": "0",
            "device": name,
            "op_name": "gemm",
            "kernel_source": "made",
            "gemm_dtype": "bfloat16",
            "m": sizes[:, 0].astype(int),
            "n": sizes[:, 1].astype(int),
            "k": sizes[:, 2].astype(int),
            "latency": seconds * 1e3,
        }
    )


def folder(root: Path, table: pl.DataFrame, name: str = "h100_sxm") -> Path:
    """A directory of profiles with one table."""
    path = root / "gpu_op_profiles" / name
    path.mkdir(parents=True)
    table.write_parquet(path / "gemm.parquet")
    return root
