"""Workflows of drafted graphs: each start of a workload becomes one, chosen among drafts and refined as it runs.

What is drafted and chosen is that of `flow.py`, how it is refined that of `refined.py`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from poise.core.errors import UserError
from poise.workload.directed import noted, starts_only
from poise.workload.draw import count, stream
from poise.workload.flow import Draft, drafts, scores
from poise.workload.lengths import Spec, length, tokens
from poise.workload.refined import WAYS, Refining, Way
from poise.workload.table import Workload

Choice = Literal["chain", "first", "score", "shortest"]
CHOICES: tuple[Choice, ...] = ("chain", "first", "score", "shortest")


def aov(
    starts: Workload, way: Way = "barrier", *, choose: Choice = "score", tasks: int = 12, candidates: int = 10,
    every: int = 3, most: int = 5, failing: float = 0.1, prompt_tokens: Spec = 1500, output_tokens: Spec = 400,
    seed: int = 0,
) -> Workload:  # fmt: skip
    """Return workflows that begin when the rows of `starts` arrive; each subtask is a request, and each refinement.

    way: `none`, or refined after a stop of all subtasks (`barrier`) or without one (`merge`).  choose: of `candidates`
    drafts the first, that with the best score, or that of which the longest way has the fewest tokens; `chain` runs one
    subtask after another.
    every, most: a refinement after so many subtasks (3), at most so often (5, as the code).  failing: the share of
    answers that are wrong, which the next refinement sees; what rests on them is wrong, too.
    Drafts, lengths and failures are those of the seed, whatever the way. Counted are programs whose results are all
    right, refinements, and subtasks that ran again.
    """
    if way not in WAYS or choose not in CHOICES:
        known, name, value = (WAYS, "way", way) if way not in WAYS else (CHOICES, "choose", choose)
        raise UserError(f"{name} is {value!r}; give one of {', '.join(known)}")
    if not 0 <= failing < 1:
        raise UserError(f"failing is {failing}; it must be a share, 0 or more and below 1")
    starts_only(starts, "aov")
    programs, again = len(starts), count("most", most, least=0) + 1
    each = count("tasks", tasks) * again + most
    prompt, output = (
        tokens(length(spec, name), stream(seed, f"aov {name}"), programs * each, name).astype(np.int32)
        for name, spec in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens))
    )
    wrong = stream(seed, "aov failing").random(programs * each) < failing
    first = output.reshape(programs, each)[:, : tasks * again : again]  # what each subtask writes if it runs once
    chosen = [
        _chosen(drafts(tasks, candidates, seed, number), choose, first[number].tolist()) for number in range(programs)
    ]
    made = Workload(
        np.repeat(starts.arrival, each), prompt, output, session=np.repeat(np.arange(programs), each).astype(np.int32),
        stage=np.tile(np.arange(each) >= tasks * again, programs).astype(np.int16), stages=("subtask", "refinement"),
        retry=starts.retry, source=starts.source,
    )  # fmt: skip
    made.directed = lambda: Refining(made, chosen, way, count("every", every), most, wrong)
    return noted(made, "aov", way=way, choose=choose, programs=programs, tasks=tasks, seed=seed)


def _chosen(some: list[Draft], choose: Choice, output: list[int]) -> Draft:
    if choose == "chain":
        return Draft(tuple((task - 1,) if task else () for task in range(len(output))))
    if choose == "first":
        return some[0]
    values = scores(some) if choose == "score" else np.array([each.makespan(output) for each in some])
    return some[int(values.argmin())]
