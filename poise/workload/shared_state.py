"""Teams of agents that read and write shared state: each step asks a model, and its commit may be refused.

What is refused, and when, is that of `s_bus.py`. An agent whose commit is refused reads again, asks the model again and
tries again, as often as its budget allows.
"""

from __future__ import annotations

import numpy as np

from poise.core.errors import UserError
from poise.core.units import ps
from poise.workload.agents import Agents, Team
from poise.workload.directed import noted, starts_only
from poise.workload.draw import count, durations, positive, stream
from poise.workload.lengths import Spec, length, tokens
from poise.workload.s_bus import WAYS, Way
from poise.workload.table import Workload


def shared_state(
    starts: Workload, way: Way = "ori", *, agents: int = 8, steps: int = 10, shards: int = 1, reads: int = 0,
    retries: int = 5, post_s: Spec = 0, check_s: float = 5e-6, prompt_tokens: Spec = 1000, output_tokens: Spec = 150,
    seed: int = 0,
) -> Workload:  # fmt: skip
    """Return teams that begin when the rows of `starts` arrive; each step of an agent is a request, and so is a retry.

    way: `ori` checks what was read and the version, `version` the version of the written shard alone, `overwrite`
    nothing; with `locks` a step begins when the shards that it needs are free, and none is refused.
    agents, steps: of each team, of each agent.  shards: of each team; its agent i writes shard i modulo `shards`.
    reads: other shards that a step reads, drawn.  retries: after a refused commit (5, as the code).  post_s: from an
    answer to its commit, a number or a distribution.  check_s: from the check to the write (5 µs, the paper's time of a
    commit); 0 does both at once.
    A team is one program. Counted are commits, those refused, those accepted on stale reads or over an update that is
    lost, steps given up, and the tokens of refused answers.
    """
    if way not in WAYS:
        raise UserError(f"way is {way!r}; give one of {', '.join(WAYS)}")
    for name, value in (("agents", agents), ("steps", steps), ("shards", shards)):
        count(name, value)
    count("reads", reads, least=0, most=shards - 1)
    starts_only(starts, "shared_state")
    team = Team(
        way, agents, steps, shards, count("retries", retries, least=0), ps(positive("check_s", check_s, zero=True))
    )
    teams, each = len(starts), agents * steps * (retries + 1)
    prompt, output = (
        tokens(length(spec, name), stream(seed, f"shared state {name}"), teams * each, name).astype(np.int32)
        for name, spec in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens))
    )
    post = durations("post_s", length(post_s, "post_s").draw(stream(seed, "shared state post_s"), teams * each))
    chance = stream(seed, "shared state reads").random((teams * agents * steps, max(shards - 1, 1)))
    made = Workload(
        np.repeat(starts.arrival, each), prompt, output, session=np.repeat(np.arange(teams), each).astype(np.int32),
        stage=np.tile(np.minimum(np.arange(retries + 1), 1), teams * agents * steps).astype(np.int16),
        stages=("step", "retry"), retry=starts.retry, source=starts.source,
    )  # fmt: skip
    made.directed = lambda: Agents(made, team, np.argsort(chance, axis=1)[:, :reads], post)
    return noted(made, "shared_state", way=way, teams=teams, agents=agents, shards=shards, seed=seed)
