"""What a training run must not be, found before a process starts or PyTorch is loaded."""

from __future__ import annotations

from poise.core.errors import UserError
from poise.runtime.choices import BYTES, DATA, OPTIMIZERS, PRECISIONS
from poise.runtime.documents import read_documents
from poise.runtime.job import Job
from poise.runtime.models.shape import Shape
from poise.runtime.size import check_stages


def check(job: Job) -> None:
    """UserError for what cannot be run."""
    job.schedule.check()
    if job.shape is None:
        job.size.check()
        check_stages(job.size.layers, job.schedule.stages)
    else:
        _check_model(job, job.shape)
    _check_numbers(job)
    if job.optimizer not in OPTIMIZERS:
        raise UserError(f"--optimizer {job.optimizer}: give {' or '.join(OPTIMIZERS)}")
    ranks = len(job.schedule.ranks)
    if job.schedule.barriers and BYTES % ranks:
        raise UserError(f"a vocabulary of {BYTES} does not divide into {ranks} shards; give a power of 2 of ranks")
    if job.schedule.updates != "flush" and job.clip is not None:
        raise UserError(
            f"--clip: with updates {job.schedule.updates} weights change before the norm of all gradients is "
            "known; leave it out"
        )
    if job.schedule.updates != "flush" and job.replicas > 1:
        raise UserError(f"--replicas: with updates {job.schedule.updates} replicas would drift apart; leave it out")
    if job.shape is None and job.size.heads % job.tensor:
        raise UserError(
            f"--tensor {job.tensor}: {job.size.heads} heads do not divide into so many parts; give a divisor, or "
            "other --heads"
        )
    if job.late and job.clip is None:
        raise UserError("--post-validate: it is about the norm of all gradients; give --clip too")
    _check_text(job)
    _check_paths(job)


def _check_model(job: Job, shape: Shape) -> None:
    """What a model of a config.json cannot be combined with."""
    check_shared(shape, job.tensor)
    if job.schedule.barriers:
        raise UserError("--model: vocabulary passes are run with the built-in decoder alone; give another schedule")
    if shape.tied and job.schedule.updates != "flush" and job.schedule.stages > 1:
        raise UserError(
            f"--model: its embedding is also its head, whose copies would drift apart with updates "
            f"{job.schedule.updates}; set tie_word_embeddings to false, or take updates flush"
        )
    segments = 2 * shape.layers + 2
    if segments < job.schedule.stages:
        raise UserError(
            f"--model: it has {segments} segments, the schedule {job.schedule.stages} stages; give a model with "
            "more layers, or a schedule of fewer stages"
        )
    if shape.family == "gpt2" and job.size.length > shape.context:
        raise UserError(
            f"--length {job.size.length}: the model has {shape.context} positions (n_positions); give at most that"
        )
    if job.data == "bytes" and shape.vocabulary < BYTES:
        raise UserError(f"--model: bytes need a vocabulary of {BYTES}, it has {shape.vocabulary}; give another one")


def check_shared(shape: Shape, parts: int) -> None:
    """What processes cannot share: what does not divide, and random numbers that all would have to draw alike."""
    counts = {"num_attention_heads": shape.heads}
    if shape.latent is None:
        counts["num_key_value_heads"] = shape.kv_heads
    if not all(shape.sparse):
        counts["intermediate_size"] = shape.inner
    if shape.experts is not None:
        counts |= {"the experts' inner width": shape.experts.inner, "the shared expert's width": shape.experts.shared}
    for name, count in counts.items():
        if count % parts:
            raise UserError(
                f"--tensor {parts}: {name} is {count} and does not divide into so many parts; give a divisor"
            )
    if parts > 1 and shape.dropout:
        raise UserError(
            f"--tensor {parts}: dropout of {shape.dropout} would differ between the processes of a stage; set it to 0"
        )


def _check_numbers(job: Job) -> None:
    """Data, precision and steps."""
    for option, value, known in (("--data", job.data, DATA), ("--precision", job.precision, PRECISIONS)):
        if value not in known:
            raise UserError(f"{option} {value}: give {', '.join(known[:-1])} or {known[-1]}")
    if job.data != "bytes" and job.shape is None:
        raise UserError(f"--data {job.data}: the built-in decoder sees all of a row; give a --model")
    if job.warmup >= job.steps and job.warmup:
        raise UserError(f"--warmup {job.warmup}: the run has {job.steps} steps; give fewer than that")
    if job.precision != "fp32" and job.schedule.barriers:
        raise UserError(f"--precision {job.precision}: vocabulary passes are run in fp32; leave it out")
    if job.precision == "fp16" and (job.late or job.schedule.updates != "flush"):
        raise UserError(
            "--precision fp16: a step is taken only when the norm over all ranks is known; give bf16, or leave "
            "--post-validate out and take updates flush"
        )


def _check_text(job: Job) -> None:
    if job.data != "bytes":
        assert job.shape is not None
        total = sum(map(len, read_documents(job.text, job.shape.vocabulary)))
        if job.data == "packed" and total < job.size.length:
            raise UserError(
                f"{job.text}: has {total} tokens, and a row of --length {job.size.length} is filled with "
                "documents; give more documents or a smaller --length"
            )
        return
    try:
        bytes_ = job.text.stat().st_size if job.text.is_file() else -1
    except OSError:
        bytes_ = -1
    if bytes_ < 0:
        raise UserError(f"{job.text}: is no file that can be read; give a text to train on")
    if bytes_ < job.size.length + 1:
        raise UserError(
            f"{job.text}: has {bytes_} bytes, and a sequence of --length {job.size.length} with the byte behind "
            f"it takes {job.size.length + 1}; give a longer text or a smaller --length"
        )


def _check_paths(job: Job) -> None:
    """A stage that every microbatch leaves out would never be trained."""
    paths = job.schedule.paths or ()
    idle = set(range(job.schedule.stages)) - {stage for path in paths for stage in path} if paths else set()
    if idle:
        raise UserError(f"stage {min(idle)} is on no microbatch's path and would not be trained; put it on one")
