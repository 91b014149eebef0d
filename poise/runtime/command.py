"""`poise train run` once its options are read: on ranks of its own, or as one rank of torchrun's."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from typing import TYPE_CHECKING

from poise.core.errors import RankError, UserError
from poise.core.extras import install
from poise.core.posix import need_posix
from poise.program.passes.buckets import CAP, MIB
from poise.runtime.choices import BYTES, OPTIMIZERS
from poise.runtime.job import Job, ranks_of, schedule_of
from poise.runtime.job_check import check
from poise.runtime.learning_rates.read import read_rate
from poise.runtime.models.read import read
from poise.runtime.models.shape import Shape
from poise.runtime.size import Size

if TYPE_CHECKING:
    from poise.runtime.options import RunOptions


def job_of(options: RunOptions, processes: int | None) -> Job:
    """The job that the options ask for on so many processes, checked."""
    ranks = ranks_of(processes, options.replicas, options.tensor)
    size, shape = _model(options)
    if options.optimizer not in OPTIMIZERS:
        raise UserError(f"--optimizer {options.optimizer}: give {' or '.join(OPTIMIZERS)}")
    usual = "packed" if options.text.suffix == ".jsonl" else "bytes"
    decay = options.weight_decay
    job = Job(
        options.text, schedule_of(options.schedule, ranks, options.microbatches, options.chunks), size, options.out,
        options.steps, options.rows, options.replicas, options.tensor, options.optimizer, options.lr, options.clip,
        options.late, options.seed, options.every, options.resume, options.recording, options.timeline,
        options.timeout_s, shape, options.data or usual, read_rate(options.lr_schedule, options.optimizer),
        options.warmup, OPTIMIZERS[options.optimizer] if decay is None else decay, options.precision,
        options.recompute, options.compiled, options.metrics, options.tensorboard, _bucket(options),
    )  # fmt: skip
    check(job)
    return job


def _bucket(options: RunOptions) -> float:
    """MiB of a bucket of gradients."""
    if options.bucket_mb is None:
        return CAP / MIB
    if options.replicas == 1:
        raise UserError(f"--bucket-mb {options.bucket_mb:g}: only replicas sum gradients; give --replicas, or leave it")
    return options.bucket_mb


def _model(options: RunOptions) -> tuple[Size, Shape | None]:
    """The sizes of the built-in decoder, or those of the model that is given."""
    sizes = {"layers": options.layers, "hidden": options.hidden, "heads": options.heads}
    if options.model is None:
        layers, hidden, heads = (sizes[name] or usual for name, usual in (("layers", 8), ("hidden", 64), ("heads", 4)))
        return Size(layers, hidden, heads, BYTES, options.length), None
    for name, value in sizes.items():
        if value is not None:
            raise UserError(f"--{name} {value}: sizes are those of --model; leave one of them out")
    shape = read(options.model)
    return Size(shape.layers, shape.hidden, shape.heads, shape.vocabulary, options.length), shape


def run(options: RunOptions) -> None:
    """Train, after reporting every error in the inputs before a process starts."""
    world = os.environ.get("WORLD_SIZE") if "RANK" in os.environ else None
    if world is None:  # ranks are forked here
        need_posix("poise train run")
    if world is not None and options.ranks is not None and options.ranks != int(world):
        raise UserError(f"--ranks {options.ranks}: torchrun has started {world} processes; leave it out")
    processes = int(world) if world is not None else None
    here = options.ranks and options.ranks * options.replicas * options.tensor
    job = job_of(options, processes if world is not None else here)
    if importlib.util.find_spec("torch") is None:
        raise UserError(f"training needs PyTorch; {install('torch')}")
    if job.tensorboard is not None and importlib.util.find_spec("tensorboard") is None:
        raise UserError(f"--tensorboard needs the package tensorboard; {install('tensorboard')}")
    _writable(job)
    if job.resume:
        from poise.runtime.checkpoint import latest

        latest(job.out, job.about())
    if world is not None:
        _one(job)
    else:
        _all(job)


def _writable(job: Job) -> None:
    """The places that the run writes to are made, or named where that cannot be."""
    files = [file.parent for file in (job.recording, job.timeline, job.metrics) if file is not None]
    for folder in [job.out, *files, *([job.tensorboard] if job.tensorboard else [])]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            able = os.access(folder, os.W_OK)
        except OSError:
            able = False
        if not able:
            raise UserError(f"{folder}: cannot be written to; give a folder that can")


def _all(job: Job) -> None:
    """All ranks as processes of this machine."""
    from poise.runtime.ranks import Ranks
    from poise.runtime.train import train

    try:
        Ranks(job.processes, lambda seat: train(job, seat), timeout_s=3 * job.timeout_s).wait()
    except KeyboardInterrupt:
        print(_stopped(job), file=sys.stderr)
        raise


def _stopped(job: Job) -> str:
    """What a run that was stopped by hand has left."""
    from poise.runtime.checkpoint import latest

    try:
        return f"stopped; --resume goes on from step {latest(job.out, job.about())} of {job.steps}"
    except UserError:
        return f"stopped before the first checkpoint, which is written every {job.every} steps (--checkpoint-every)"


def _one(job: Job) -> None:
    """The rank given by torchrun: nccl where every process of the machine has a GPU, else gloo."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    from poise.runtime.guard import EXIT, Seat
    from poise.runtime.train import train

    local, here = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() >= here
    if gpus:
        torch.cuda.set_device(local)
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=3 * job.timeout_s))
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        train(job, Seat(dist.get_rank(), dist.get_world_size(), lambda: TCPStore(host, port, is_master=False)))
    except RankError as error:  # the rank that detected it has printed it
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        sys.stderr.flush()
        os._exit(EXIT)
    dist.destroy_process_group()
