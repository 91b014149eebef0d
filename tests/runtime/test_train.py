"""`poise train run`: what is wrong is said before anything starts; what stopped goes on bit by bit as if it had not."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from poise.core.errors import PoiseError, RankError, ScheduleError, UserError
from poise.pipeline.csv import write_csv
from poise.pipeline.find import make
from poise.pipeline.text import write_json
from poise.runtime.command import job_of, run
from poise.runtime.guard import Guard, Seat
from poise.runtime.options import RunOptions
from poise.runtime.ranks import Ranks
from poise.runtime.recording import Recording
from poise.runtime.train import Trainer, train
from tests.patience import PATIENCE_S
from tests.runtime.cases import with_vocabulary

SMALL: dict[str, Any] = {
    "ranks": 2, "microbatches": 4, "chunks": None, "layers": 4, "hidden": 16, "heads": 2, "length": 16, "rows": 1,
    "replicas": 1, "tensor": 1, "steps": 4, "optimizer": "adamw", "lr": 1e-2, "clip": 0.5, "late": False, "seed": 3,
    "every": 2, "resume": False, "recording": None, "timeline": None, "timeout_s": 60.0, "schedule": "zb_h1",
}  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("the quick brown fox jumps over the lazy dog; " * 40)
    return file


def wish(text: Path, out: Path, **given: Any) -> RunOptions:
    return RunOptions(text=text, out=out, **{**SMALL, **given})


def parts(out: Path, step: int) -> dict[str, Any]:
    """A checkpoint, read by torch alone."""
    file = out / f"{step}.pt"
    dcp_to_torch_save(out / f"step-{step:08d}", file)
    found: dict[str, Any] = torch.load(file)
    return found


def same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


def losses(out: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / "loss.jsonl").read_text().splitlines()]


def check_resume(text: Path, tmp_path: Path, **given: Any) -> None:
    """Four steps at once, and two steps and two more, leave the same bits."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    run(wish(text, whole, **given))
    run(wish(text, parted, **{**given, "steps": 2}))
    run(wish(text, parted, **{**given, "resume": True}))
    assert same(parts(whole, 4), parts(parted, 4))
    assert losses(whole) == losses(parted)
    assert len(losses(whole)) == 4 and losses(whole)[-1] < losses(whole)[0]


def test_a_run_that_is_resumed_ends_in_the_same_bits(text: Path, tmp_path: Path) -> None:
    check_resume(text, tmp_path, late=True)
    page = (tmp_path / "whole" / "loss.html").read_text()
    assert "zb_h1: 2 stages on 2 ranks" in page and "<svg" in page
    with pytest.raises(UserError, match=r"--hidden 32: the checkpoint in .* has 16"):
        run(wish(text, tmp_path / "whole", hidden=32, resume=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chimera", "zb_v", "stash", "latest", "vocabulary"])
def test_every_kind_of_schedule_resumes(text: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "schedule.json"
    if name in ("stash", "latest"):
        file.write_text(write_json(make("one_f_one_b", 4, 6)).replace('"flush"', f'"{name}"'))
    elif name == "vocabulary":
        file.write_text(write_json(with_vocabulary(3, 1)))
    else:
        file.write_text(write_json(make(name, 4, 8)))
    clip = None if name in ("stash", "latest") else 0.5
    check_resume(text, tmp_path, schedule=str(file), ranks=None, microbatches=None, clip=clip, optimizer="sgd", lr=0.05)


@pytest.mark.slow
def test_replicas_train_as_one_pipeline_with_their_rows(text: Path, tmp_path: Path) -> None:
    run(wish(text, tmp_path / "one", rows=2, optimizer="sgd"))
    check_resume(text, tmp_path, replicas=2, optimizer="sgd")
    assert losses(tmp_path / "whole") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"late": True}, {"schedule": "zb_v", "ranks": 1, "replicas": 2}])
def test_ranks_that_share_layers_train_as_one(text: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    run(wish(text, tmp_path / "one", optimizer="sgd", **given))
    check_resume(text, tmp_path, tensor=2, optimizer="sgd", **given)
    assert losses(tmp_path / "whole") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    with pytest.raises(UserError, match=r"--tensor 1: the checkpoint in .* has 2"):
        run(wish(text, tmp_path / "whole", **{**given, "optimizer": "sgd", "resume": True}))


class Doomed(Trainer):
    """Rank 1 is killed in the fourth step."""

    def _step(self, step: int) -> float:
        if step == 3 and self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._step(step)


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_last_checkpoint(text: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(wish(text, whole))
    job = job_of(wish(text, broken), 2)

    def main(seat: Seat) -> None:
        with Guard(seat, timeout_s=20) as guard:
            Doomed(job, guard).run()

    with pytest.raises(RankError, match=r"rank 1 was ended by signal 9 \(SIGKILL\)"):
        Ranks(2, main).wait()
    run(wish(text, broken, resume=True))
    assert same(parts(whole, 4), parts(broken, 4))
    assert losses(whole) == losses(broken)


@pytest.mark.slow
def test_another_layout_goes_on_in_the_same_bits(text: Path, tmp_path: Path) -> None:
    """On as many threads: sums over microbatches have one order in both schedules, wherever the model is cut."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    given = {"schedule": "one_f_one_b", "clip": None}
    run(wish(text, whole, **given))
    run(wish(text, parted, **given, steps=2))
    run(wish(text, parted, **{**given, "schedule": "gpipe", "ranks": 4}, resume=True))
    assert losses(whole) == losses(parted)
    one, two = parts(whole, 4), parts(parted, 4)
    assert same(one["model"], two["model"]) and same(one["optimizer"], two["optimizer"])


@pytest.mark.parametrize(
    ("file", "damage", "error"),
    [
        (".metadata", b"garbage", "cannot be read"),
        pytest.param("__0_0.distcp", b"PK", "failed in the start: .*cannot be read", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_checkpoint_is_named(text: Path, tmp_path: Path, file: str, damage: bytes, error: str) -> None:
    out = tmp_path / "out"
    run(wish(text, out, ranks=1, steps=2))
    (out / "step-00000002" / file).write_bytes(damage)
    with pytest.raises(PoiseError, match=rf"{error} \(.*\); restore it, or name the checkpoint before it") as seen:
        run(wish(text, out, ranks=1, resume=True))
    assert "\n" not in str(seen.value)


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(text: Path, tmp_path: Path) -> None:
    """One line on all ranks; a limit on the size of files stands for the disk."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(wish(text, whole))
    run(wish(text, broken, steps=2))
    job = job_of(wish(text, broken, resume=True), 2)

    def main(seat: Seat) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        train(job, seat)

    with pytest.raises(RankError, match=r"^rank . failed in the checkpoint: .*step-00000004: cannot be written .*room"):
        Ranks(2, main).wait()
    assert [each.name for each in broken.glob("step-*")] == ["step-00000002"]
    run(wish(text, broken, resume=True))
    assert same(parts(whole, 4), parts(broken, 4))


@pytest.mark.slow
def test_a_run_that_is_stopped_by_hand_says_how_to_go_on(text: Path, tmp_path: Path) -> None:
    sizes = {"layers": 4, "hidden": 16, "heads": 2, "length": 16, "rows": 1, "ranks": 2, "microbatches": 4}
    options = [f"--{word}={value}" for word, value in {**sizes, "steps": 5000, "checkpoint-every": 1}.items()]
    command = [sys.executable, "-m", "poise", "train", "run", str(text), "--out", str(tmp_path / "out"), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = [process.stderr.readline() for _ in range(2)]  # the second step is over, and the first one saved
        assert first[0].startswith("step 1 of 5000") and first[1].startswith("4998 steps are left")
        process.send_signal(signal.SIGINT)
        _, left = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert re.fullmatch(r"stopped; --resume goes on from step \d+ of 5000\n+", left)


@pytest.mark.slow
def test_under_torchrun(text: Path, tmp_path: Path) -> None:
    out, record = tmp_path / "out", tmp_path / "record.json"
    file = tmp_path / "schedule.csv"
    file.write_text(write_csv(make("zb_h1", 2, 4)))
    options = {"layers": 4, "hidden": 16, "heads": 2, "length": 16, "rows": 1, "steps": 4, "lr": 0.01, "clip": 0.5}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "poise"]
    command += ["train", "run", str(text), "--schedule", str(file), "--out", str(out), "--record", str(record)]
    command += [f"--{word}={value}" for word, value in {**options, "seed": 3}.items()]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    run(wish(text, tmp_path / "alone"))
    # torchrun gives each rank one thread, and sums of several threads end in other bits.
    assert losses(out) == pytest.approx(losses(tmp_path / "alone"), rel=1e-6)
    assert len(Recording.load(record).ranks) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 4000}, r"text.txt: has 1800 bytes, and a sequence of --length 4000 .* takes 4001; give a longer"),
        ({"layers": 5, "ranks": 4}, r"5 layers are 10 parts .* do not divide into 4 stages; give 6 layers"),
        ({"heads": 3}, "hidden 16 does not divide into 3 heads"),
        ({"tensor": 4}, "--tensor 4: 2 heads do not divide into so many parts; give a divisor"),
        ({"optimizer": "adam"}, "--optimizer adam: give adamw or sgd"),
        ({"schedule": "zb_vv"}, "'zb_vv' is no schedule; did you mean zb_v"),
        ({"schedule": "none.csv"}, r"none.csv: is no file; give a schedule's file \(.csv, .json, .txt\) or one of"),
        ({"late": True, "clip": None}, r"--post-validate: .* give --clip too"),
        ({"schedule": "pipedream", "clip": None, "replicas": 2}, "--replicas: with updates stash"),
        ({"resume": True}, "holds no complete checkpoint"),
    ],
)
def test_what_is_wrong_is_reported_first(text: Path, tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(wish(text, tmp_path / "out", **given))
    assert not any(tmp_path.glob("out/*"))


def test_a_place_that_cannot_be_written_is_named(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"text.txt: cannot be written to; give a folder"):
        run(wish(text, text))
    with pytest.raises(UserError, match=r"text.txt/deep: cannot be written to"):
        run(wish(text, tmp_path / "out", recording=text / "deep" / "x.json"))


@pytest.mark.slow
def test_one_rank_is_enough(text: Path, tmp_path: Path) -> None:
    check_resume(text, tmp_path, ranks=1, schedule="gpipe", clip=None)


def test_no_text_and_a_faulty_file(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no file that can be read"):
        run(wish(tmp_path / "nothing", tmp_path / "out"))
    file = tmp_path / "bad.csv"
    file.write_text("0F0,0B0\n1B0,1F0\n")
    with pytest.raises(ScheduleError, match=r"1B0 .* comes before 1F0"):
        run(wish(text, tmp_path / "out", schedule=str(file), ranks=None, microbatches=None))
    file.write_text("0F0,0B0\n1F0,1B0\n")
    with pytest.raises(ScheduleError, match=r"--ranks 3: the schedule in .* has 2"):
        run(wish(text, tmp_path / "out", schedule=str(file), ranks=3, microbatches=None))


def test_without_pytorch_the_cure_is_named(text: Path, tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)\n"
        f"from poise.cli import main; code = main(['train', 'run', {str(text)!r}, '--ranks', '2'])\n"
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert '-m pip install "poise[torch]"' in done.stderr
