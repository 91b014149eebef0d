"""Compare a model with that of `transformers` in double precision; a program, since both need a folder of packages.

`python -m tests.runtime.models.hugging_face NAME` prints a line of JSON: the largest differences of logits and of
gradients, and of the logits of `transformers` with weights that were saved here.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from poise.runtime.models import build
from poise.runtime.models.read import read
from tests.runtime.models.configs import CONFIGS


@contextmanager
def doubled() -> Iterator[None]:
    """Models of `transformers` turn to float32 in norms and routers, whatever the weights; here to float64."""
    kept = torch.float32, torch.float, Tensor.float
    torch.float32 = torch.float = torch.float64  # type: ignore[misc]
    Tensor.float = Tensor.double  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.float32, torch.float, Tensor.float = kept  # type: ignore[misc, method-assign]


def theirs(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    keys = AutoConfig.for_model(**config)
    with doubled():
        model = AutoModelForCausalLM.from_config(
            keys, attn_implementation="eager", experts_implementation="eager", dtype=torch.float64
        )
        for weight in model.parameters():
            weight.data.normal_(1.0 if weight.dim() == 1 else 0.0, 0.1)
    return model.train()


def weights_of(model: Any, folder: Path) -> dict[str, Tensor]:
    """Under the names of published checkpoints."""
    from safetensors.torch import load_file

    model.save_pretrained(folder)
    return dict(load_file(folder / "model.safetensors"))


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def compare(name: str, folder: Path) -> dict[str, float]:
    """The largest differences."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    tokens = torch.randint(64, (2, 24), generator=torch.Generator().manual_seed(1))
    model = theirs(CONFIGS[name])
    ours = build(read(CONFIGS[name])).double()
    weights = weights_of(model, folder / "theirs")
    own = dict(ours.named_parameters())
    assert own.keys() == weights.keys(), own.keys() ^ weights.keys()
    ours.load_state_dict(weights, strict=False)
    with doubled():
        logits = model(tokens).logits
        loss_of(logits, tokens).backward()
    found = ours(tokens)
    loss_of(found, tokens).backward()
    for weight in model.parameters():
        weight.data = weight.grad
    gradients = weights_of(model, folder / "gradients")
    save_file(
        {name: weight.data.clone() for name, weight in own.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    (folder / "config.json").write_bytes((folder / "theirs/config.json").read_bytes())
    with doubled(), torch.no_grad():
        back = AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", experts_implementation="eager", dtype=torch.float64
        )
        again = back(tokens).logits
    return {
        "logits": float((found - logits).detach().abs().max()),
        "gradients": max(float((weight.grad - gradients[name]).abs().max()) for name, weight in own.items()),  # type: ignore[operator]
        "back": float((again - logits).detach().abs().max()),
        "size": float(logits.detach().abs().max()),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(sys.argv[1], Path(folder))))
