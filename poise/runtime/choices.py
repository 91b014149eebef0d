"""What the options of a training run may be."""

from __future__ import annotations

BYTES = 256
"""The vocabulary of a text: a token is a byte."""

OPTIMIZERS = {"adamw": 0.01, "sgd": 0.0}
"""By name, with the weight decay that each has by default."""

DATA = ("bytes", "packed", "padded")
PRECISIONS = ("fp32", "bf16", "fp16")
