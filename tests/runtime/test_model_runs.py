"""`poise train run --model`: what it writes, how it goes on under another layout, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from poise.core.errors import UserError
from poise.runtime.checkpoint import latest
from poise.runtime.command import job_of, run
from poise.runtime.models import build
from poise.runtime.models.read import read
from poise.runtime.options import RunOptions
from tests.runtime.models.configs import CONFIGS

TIED = {**CONFIGS["llama, tied, biases, llama3"], "vocab_size": 256}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    file = tmp_path / "docs.jsonl"
    lines = [json.dumps({"text": "the quick brown fox " * (1 + at % 5)}) for at in range(40)]
    file.write_text("\n".join(lines))
    return file


def wish(folder: Path, text: Path, config: dict[str, Any] = TIED, **given: Any) -> RunOptions:
    model = folder / "config.json"
    model.write_text(json.dumps(config))
    made = RunOptions(
        text=text, model=model, ranks=2, microbatches=4, schedule="zb_h1", rows=1, length=32, steps=4, every=2,
        lr=1e-2, clip=0.5, seed=3, timeout_s=60.0, out=folder / "out",
    )  # fmt: skip
    return replace(made, **given)


def weights(out: Path, step: int) -> dict[str, Any]:
    """A checkpoint, read by torch alone."""
    dcp_to_torch_save(out / f"step-{step:08d}", out / "whole.pt")
    found: dict[str, Any] = torch.load(out / "whole.pt")
    return found


def column(file: Path, name: str) -> list[float]:
    return [json.loads(line)[name] for line in file.read_text().splitlines()]


def test_a_run_goes_on_under_another_layout(documents: Path, tmp_path: Path) -> None:
    """Two ranks and then one process: losses and weights of a run on two ranks, under published names."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    figures = tmp_path / "metrics.jsonl"
    options: dict[str, Any] = {"lr_schedule": "cosine", "steps": 6, "warmup": 2}
    run(wish(tmp_path, documents, out=whole, metrics=figures, **options))
    run(wish(tmp_path, documents, out=parted, **options))
    (parted / "latest.json").write_text((parted / "latest.json").read_text().replace('"step": 6', '"step": 4'))
    run(wish(tmp_path, documents, out=parted, **options, resume=True, ranks=1, microbatches=1, rows=4))
    assert column(parted / "loss.jsonl", "loss") == pytest.approx(column(whole / "loss.jsonl", "loss"), rel=1e-4)
    one, two = weights(whole, 6), weights(parted, 6)
    names = {name for name, _ in build(read(TIED)).named_parameters()}
    assert one["model"].keys() == two["model"].keys() == names
    assert one["optimizer"]["model.norm.weight"].keys() == {"step", "exp_avg", "exp_avg_sq"}
    for name in names:
        assert torch.allclose(one["model"][name], two["model"][name], atol=1e-3), name
    assert column(figures, "lr") == pytest.approx([0.005, 0.01, 0.01, 0.0085355339, 0.005, 0.0014644661], rel=1e-6)
    assert min(column(figures, "gradient_l1")) > 0 and column(figures, "step") == list(range(6))
    assert all(tokens < 4 * 32 for tokens in column(figures, "tokens"))  # each document's last token has no target


def test_processes_share_each_layer(documents: Path, tmp_path: Path) -> None:
    """Two processes for each of two ranks: losses, norms and number of weights of one process for each."""
    config = {**CONFIGS["qwen3_moe"], "vocab_size": 256}
    for tensor in (1, 2):
        figures = tmp_path / f"{tensor}.jsonl"
        run(wish(tmp_path, documents, config, tensor=tensor, out=tmp_path / str(tensor), metrics=figures))
    for name in ("loss", "gradient_l2", "gradient_l1"):
        one, two = (column(tmp_path / f"{tensor}.jsonl", name) for tensor in (1, 2))
        assert two == pytest.approx(one, rel=1e-4), name
    sizes = {name: weight.numel() for name, weight in weights(tmp_path / "2", 4)["model"].items()}
    assert sum(sizes.values()) == sum(each.numel() for each in build(read(config)).parameters())


def test_what_was_not_moved_into_place_is_not_loaded(documents: Path, tmp_path: Path) -> None:
    options = wish(tmp_path, documents, ranks=1, microbatches=2, steps=2)
    run(options)
    about = job_of(options, 1).about()
    assert latest(options.out, about) == 2
    (options.out / "step-00000002" / ".metadata").unlink()
    with pytest.raises(UserError, match=r"step-00000002: is not there, or not complete"):
        latest(options.out, about)
    (options.out / "latest.json").write_text('{"step": 2, "about": {}}')
    with pytest.raises(UserError, match=r"its checkpoint holds stages, as older versions wrote them"):
        latest(options.out, about)
    (options.out / "latest.json").write_text("[]")
    with pytest.raises(UserError, match=r"names no checkpoint"):
        latest(options.out, about)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"precision": "fp16"},
        {"precision": "bf16", "recompute": True, "data": "padded"},
        {"late": True, "schedule": "chimera"},
        {"replicas": 2, "ranks": 1, "optimizer": "sgd"},
    ],
)
def test_a_resumed_run_ends_in_the_same_bits(documents: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    config = {**TIED, "attention_dropout": 0.1}
    for out, steps in (("whole", (4,)), ("parted", (2, 4))):
        for number, each in enumerate(steps):
            run(wish(tmp_path, documents, config, out=tmp_path / out, steps=each, resume=number > 0, **given))
    one, two = weights(tmp_path / "whole", 4), weights(tmp_path / "parted", 4)
    for name, value in one["model"].items():
        assert torch.equal(value, two["model"][name]), name
    assert column(tmp_path / "whole/loss.jsonl", "loss") == column(tmp_path / "parted/loss.jsonl", "loss")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen3_moe", "deepseek_v2_lite", "gpt2"])
def test_families_learn(documents: Path, tmp_path: Path, name: str) -> None:
    config = {**CONFIGS[name], "vocab_size": 256}
    run(wish(tmp_path, documents, config, steps=12, lr_schedule="wsd"))
    losses = column(tmp_path / "out/loss.jsonl", "loss")
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.slow
def test_tensorboard_has_the_figures(documents: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board, figures = tmp_path / "board", tmp_path / "metrics.jsonl"
    run(wish(tmp_path, documents, ranks=1, microbatches=2, tensorboard=board, metrics=figures))
    read_back = events.EventAccumulator(str(board))
    read_back.Reload()
    found = [each.value for each in read_back.Scalars("loss")]
    assert found == pytest.approx(column(figures, "loss"), rel=1e-6)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"tensor": 3}, "--tensor 3: num_attention_heads is 4 and does not divide into so many parts; give a divisor"),
        ({"hidden": 8}, "--hidden 8: sizes are those of --model"),
        ({"model": None}, "--data packed: the built-in decoder sees all of a row; give a --model"),
        ({"data": "chopped"}, "--data chopped: give bytes, packed or padded"),
        ({"precision": "fp8"}, "--precision fp8: give fp32, bf16 or fp16"),
        ({"precision": "fp16", "late": True}, "--precision fp16: a step is taken only when the norm"),
        ({"warmup": 4}, "--warmup 4: the run has 4 steps; give fewer than that"),
        ({"ranks": 7}, "--model: it has 6 segments, the schedule 7 stages"),
        ({"lr_schedule": "up"}, "--lr-schedule up: there is no such schedule"),
        ({"optimizer": "lion"}, "--optimizer lion: give adamw or sgd"),
        ({"length": 4000}, "tokens, and a row of --length 4000 is filled with documents"),
    ],
)
def test_what_cannot_be_run_is_refused(documents: Path, tmp_path: Path, given: dict[str, Any], error: str) -> None:
    with pytest.raises(UserError) as caught:
        run(wish(tmp_path, documents, **given))
    assert error in str(caught.value) and not (tmp_path / "out").exists()


def test_models_that_cannot_take_the_text_or_the_schedule_are_refused(documents: Path, tmp_path: Path) -> None:
    small = {**CONFIGS["gpt2"], "n_positions": 16}
    with pytest.raises(UserError, match=r"--length 32: the model has 16 positions"):
        run(wish(tmp_path, documents, small))
    with pytest.raises(UserError, match=r"line 1: has the token 120, the model a vocabulary of 64"):
        run(wish(tmp_path, documents, CONFIGS["llama"]))
    with pytest.raises(UserError, match=r"bytes need a vocabulary of 256, it has 64"):
        run(wish(tmp_path, documents, CONFIGS["llama"], data="bytes"))


def test_buckets_change_no_loss(documents: Path, tmp_path: Path) -> None:
    """Gradients of each stage alone, or all that fit into 25 MiB together."""
    losses = []
    for name, bucket_mb in (("alone", 0.0), ("usual", None)):
        wanted = wish(
            tmp_path,
            documents,
            out=tmp_path / name,
            ranks=1,
            chunks=2,
            replicas=2,
            schedule="breadth_first",
            bucket_mb=bucket_mb,
        )
        assert job_of(wanted, 2).bucket_mb == (25.0 if bucket_mb is None else bucket_mb)
        run(wanted)
        losses.append(column(tmp_path / name / "loss.jsonl", "loss"))
    assert losses[0] == losses[1] and len(losses[0]) == 4


def test_buckets_are_of_replicas(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--bucket-mb 5: only replicas sum gradients; give --replicas, or leave it"):
        job_of(wish(tmp_path, documents, bucket_mb=5.0), 2)
