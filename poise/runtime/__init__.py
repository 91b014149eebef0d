"""The world of torch: a checked schedule runs on the ranks of a process group and leaves the gradients of one process.

execute    Pipeline, execute (pipeline.py): a Schedule, run as a Program
program    Interpreter (interpreter.py): a rank's lanes; StageKernels (stages.py): what tasks do; transports: between
           processes (distributed.py), between threads (inproc.py, run.py); output.py: an output layer in shards
a stage    Stage (stage.py): a module with its open microbatches; split.py: input and weight gradients apart;
           saved.py: activations counted and moved to the host; versions.py: weights that change under microbatches
between    Wire (wire.py): tensors from rank to rank, first in first out; share.py: copies of a stage, replicas of a
           pipeline
measured   Recording (recording.py): when everything ran and what was held; to Costs and to a trace
faults     Guard (guard.py): find the failed rank and stop the others; Ranks (ranks.py): processes of this machine
shared     tensor.py: layers whose heads and inner widths several ranks share
models     models/: decoders from a config.json in segments and stages; ties.py: weights of several stages
training   command.py: `poise train run` of a Job (job.py) by train.py on its stages (stages.py); data.py, documents.py;
           loss.py: mean over tokens; learning_rates/; groups.py: weight decay; norm.py: clipping, late.py: clipping
           afterwards; scale.py: of fp16 losses; metrics.py, report.py: figures
kept       checkpoint.py: torch's distributed format; named.py, store.py: what a rank has in it; chance.py
elsewhere  pytorch.py: the same schedule through torch.distributed.pipelining

Needs PyTorch (the extra `torch`), but for recording.py, job.py, command.py, documents.py, learning_rates and what reads
configurations.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poise.runtime.pipeline import Outcome, Pipeline, execute
    from poise.runtime.recording import Recording
    from poise.runtime.stage import Stage

_HOMES = {
    "Outcome": "pipeline",
    "Pipeline": "pipeline",
    "execute": "pipeline",
    "Recording": "recording",
    "Stage": "stage",
}

__all__ = ["Outcome", "Pipeline", "Recording", "Stage", "execute"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'poise.runtime' has no attribute {name!r}")
    return getattr(import_module(f"poise.runtime.{_HOMES[name]}"), name)
