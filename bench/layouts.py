"""Layouts of a training run: how many are evaluated in a second, and the best one, beside calculon where it is given.

    python bench/layouts.py [--wide] [--seconds S] [--calculon FOLDER]

GPT-3 175B, 1,536 sequences of 2,048 tokens, 1,024 A100 with 80 GB: the setting that calculon ships. Poise evaluates the
whole space and simulates the best dozen; calculon (a checkout, also by POISE_CALCULON) is handed random layouts of the
same space for some seconds, since its own search of this setting takes hours. Both run on one core in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

from poise.catalogue.devices import device
from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.search import search
from poise.plan.training.space import Space

BATCH, DEVICES = 1536, 1024
GPT3 = shape(96, 12288, 96, vocab=51200, name="GPT-3 175B")
WIDE = Space(
    context=(1, 2, 4), zero=(0, 1, 3), offload=True, schedule=("one_f_one_b", "interleaved", "gpipe", "zb_h1", "zb_h2")
)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wide", action="store_true", help="a space a hundred times as large as the default one")
    parser.add_argument("--seconds", type=float, default=10.0, help="of calculon")
    parser.add_argument("--calculon", type=Path, default=os.environ.get("POISE_CALCULON"))
    options = parser.parse_args()
    job = Job(GPT3, device("A100-SXM-80GB"), DEVICES, 2048, BATCH)
    began, cpu = perf_counter(), process_time()
    found = search(job, WIDE if options.wide else None)
    took, spent = perf_counter() - began, process_time() - cpu
    best = found.best[0]
    print(
        f"poise     {found.considered:,} layouts in {found.seconds:.2f} s: {found.rate:,.0f} a second; with the best\n"
        f"          simulated {took:.2f} s ({spent:.2f} CPU s): {best.layout.label()}: {best.seconds:.2f} s a step"
    )
    if options.calculon is None:
        print("calculon  not given; a checkout of calculon-ai/calculon by --calculon or POISE_CALCULON")
        return
    rate, valid = _calculon(Path(options.calculon), options.seconds)
    print(
        f"calculon  random layouts: {rate:>7,.0f} a second, {valid:,.0f} of them valid; ratio {found.rate / rate:,.0f}"
    )
    seconds = _step(Path(options.calculon), best.layout)
    own = predict(job, best.layout).seconds
    text = f"{seconds:.2f} s a step" if isinstance(seconds, float) else f"rejected ({seconds})"
    print(f"          the layout above: {text}; poise {own:.2f} s by closed forms")


def _calculon(folder: Path, seconds: float) -> tuple[float, float]:
    """Layouts and valid layouts that it evaluates in a second."""
    tried = valid = 0
    began = process_time()
    for layout in _random():
        tried += 1
        valid += isinstance(_step(folder, layout), float)
        if process_time() - began > seconds:
            break
    spent = process_time() - began
    return tried / spent, valid / spent


def _random() -> Iterator[Layout]:
    """Layouts of 1,024 devices, drawn alike; calculon rejects those that do not divide."""
    draw = Random(0)
    degrees = [
        (t, p, DEVICES // (t * p)) for t, p in product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32)) if DEVICES % (t * p) == 0
    ]
    while True:
        tensor, pipeline, data = draw.choice(degrees)
        yield Layout(
            tensor=tensor, pipeline=pipeline, data=data, chunks=draw.choice((1, 2, 3)) if pipeline > 1 else 1,
            micro_batch=draw.choice((1, 2, 4)), recompute=draw.choice(("none", "selective", "full")),
            zero=draw.choice((0, 1)),
        )  # fmt: skip


def _step(folder: Path, layout: Layout) -> float | str:
    """Seconds of a step by calculon, or why it rejects the layout."""
    calculon = _loaded(folder)
    each = BATCH // layout.data
    if BATCH % layout.data or each % layout.micro_batch:
        return "the batch does not divide"
    execution = {
        "num_procs": DEVICES, "tensor_par": layout.tensor, "pipeline_par": layout.pipeline, "data_par": layout.data,
        "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": BATCH,
        "microbatch_size": layout.micro_batch, "datatype": "float16", "fused_activation": True,
        "attention_type": "multihead",
        "activation_recompute": {"none": "none", "selective": "attn_only", "full": "full"}[layout.recompute],
        "pipeline_interleaving": layout.chunks, "optimizer_sharding": layout.zero > 0, "tensor_par_comm_type": "rs_ag",
        "tensor_par_overlap": "none", "seq_par_ag_redo": False, "data_par_overlap": layout.overlap,
        "weight_offload": False, "activations_offload": False, "optimizer_offload": layout.offload_optimizer,
        "training": True,
    }  # fmt: skip
    try:
        model = calculon["Llm"](calculon["Llm"].Application(calculon["application"]), calculon["log"])
        model.compile(calculon["System"](calculon["system"]), calculon["Llm"].Execution.from_json(execution))
        model.run(calculon["System"](calculon["system"]))
    except (calculon["Llm"].Error, AssertionError) as error:  # its two ways to say no
        return str(error)
    return float(model.get_total_time())


_KEPT: dict[str, Any] = {}


def _loaded(folder: Path) -> dict[str, Any]:
    """Calculon from its checkout, with the model and system that it ships."""
    if not _KEPT:
        sys.path.insert(0, str(folder))
        import logging

        from calculon.llm.llm import Llm
        from calculon.system import System

        read = json.loads
        _KEPT.update(
            Llm=Llm, System=System, log=logging.getLogger("calculon"),
            application=read((folder / "models" / "gpt3-175B.json").read_text()),
            system=read((folder / "systems" / "a100_80g.json").read_text()),
        )  # fmt: skip
    return _KEPT


if __name__ == "__main__":
    main()
