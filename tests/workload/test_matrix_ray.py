"""The same conversations on Ray actors: every row ends once, whoever orchestrates."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from poise.workload.matrix import WAYS, conversations


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed (the extra `ray`)")
@pytest.mark.filterwarnings("ignore")  # Ray's own, at its start
def test_every_row_ends_once_on_actors() -> None:
    import ray

    from bench.matrix import measure

    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False, num_cpus=2)
    try:
        rows = conversations(40, turns={"geometric": 3}, call_s={"exponential": 0.01}, seed=1)
        assert set(measure(rows, 10, 2)) == set(WAYS)
    finally:
        ray.shutdown()
