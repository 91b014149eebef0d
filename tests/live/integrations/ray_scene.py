"""What runs inside Ray's own environment: it writes what happened as JSON, for `test_ray` to judge."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.exceptions import BackPressureError

from poise.core.records.trace import Trace
from poise.scenario.serve.ray import PoiseRouter
from tests.patience import PATIENCE_S, until

HERE = "tests.live.integrations.ray_scene"
LONG = "the same beginning of every prompt " * 60
WORDS = ("alpha ", "beta ", "gamma ", "delta ")
ROUTERS: list[Any] = []


class Watched(PoiseRouter):
    """Keeps what happens."""

    def initialize_state(self, **given: Any) -> None:
        import tests.live.integrations.ray_scene as here  # Ray copies a router's module, and its list with it

        super().initialize_state(**given)
        self.trace = Trace()
        self._choices.world.keep = self.trace.add
        here.ROUTERS.append(self)


@serve.deployment(num_replicas=2, max_ongoing_requests=4, ray_actor_options={"num_cpus": 0.1})
class Echo:
    """Answers with the name of the replica that answers."""

    def __init__(self) -> None:
        self.name = serve.get_replica_context().replica_id.unique_id
        self.gates: dict[str, asyncio.Event] = {}

    async def __call__(self, argument: Any) -> str:
        return self.name

    async def wait(self, prompt: str) -> str:
        """Answer once `free` is called here."""
        await self.gates.setdefault(prompt, asyncio.Event()).wait()
        return self.name

    async def free(self, prompt: str) -> str:
        self.gates.setdefault(prompt, asyncio.Event()).set()
        return self.name

    async def die(self, prompt: str) -> None:
        os._exit(1)


async def scene() -> dict[str, Any]:
    config = RequestRouterConfig(
        request_router_class=f"{HERE}:Watched",
        request_router_kwargs={
            "router": {"prefix_cache": {"imbalance": 8}},
            "admission": "tests.live.integrations.shed:Shed",
        },
    )
    handle = serve.run(Echo.options(request_router_config=config).bind(), name="echo", route_prefix=None)
    seen: dict[str, Any] = {}
    seen["homes"] = [[await handle.remote(word + LONG + str(turn)) for turn in range(4)] for word in WORDS]
    seen["chats"] = [
        await handle.remote({"messages": [{"role": "user", "content": LONG}], "max_tokens": turn + 1})
        for turn in range(3)
    ]
    (router,) = ROUTERS
    world = router._choices.world
    await _until(lambda: not world.proxied_requests)
    waits = [handle.wait.remote(word + LONG) for word in WORDS[:2]]
    await _until(lambda: len(world.control.flights) == 2)
    try:
        await handle.remote({"prompt": "me", "priority": 9})
    except BackPressureError as error:
        seen["shed"] = [error.status_code, error.retry_after_s]
    seen["under_way"] = list(world.control.state.requests)
    seen["freed"] = [await handle.free.remote(word + LONG) for word in WORDS[:2]]
    seen["waited"] = [await each for each in waits]
    seen["victim"] = await handle.remote(WORDS[0] + LONG)
    await _until(
        lambda: not world.proxied_requests
    )  # or what has been answered dies with the replica, not yet told of its end
    try:
        await handle.die.remote(WORDS[0] + LONG)
    except Exception as error:
        seen["died"] = type(error).__name__
    seen["after"] = [await handle.remote(WORDS[0] + LONG + str(turn)) for turn in range(4)]
    await _until(lambda: not world.proxied_requests)
    seen["balance"] = [len(world.control.flights), len(world.control.held), sum(world.control.state.requests)]
    seen["trace"] = router.trace.lines
    return seen


async def _until(true: Callable[[], bool]) -> None:
    """Ray tells of calls in a thread of its own, and of an answer's end after its caller has the answer."""
    await until(true)


def main(out: str) -> None:
    import tests.live.integrations.ray_scene as here  # the very module that Ray imports by name

    ray.init(num_cpus=2, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    try:
        result = asyncio.run(asyncio.wait_for(here.scene(), 2 * PATIENCE_S))
        Path(out).write_text(json.dumps(result))
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
