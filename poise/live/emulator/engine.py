"""One emulated engine: takes requests into its replica, sends tokens to answers, applies faults to both.

A crash ends a `Core` and all its state; the engine's `Plan`, its policies and its port outlive it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Final

from xxhash import xxh3_64_intdigest

from poise.core.policy import Bundle
from poise.core.request import RequestView, Sequence
from poise.core.units import SECOND
from poise.live.emulator.drive import Driver
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.events import Ledger
from poise.live.emulator.identity import KeepOutputs, ends
from poise.live.emulator.loras import Loras
from poise.live.emulator.metrics import Metrics
from poise.live.emulator.options import Plan
from poise.live.emulator.pace import Pace
from poise.live.emulator.publish import Publisher
from poise.live.emulator.reply import Outlet, Reply
from poise.live.requests.names import Begun

SESSIONS: Final = 100_000
"""Most sessions whose start is remembered."""


class Core:
    """The state from one start of the engine to its end: replica, driver, time, metrics and events."""

    def __init__(self, plan: Plan, policies: Bundle) -> None:
        options = plan.options
        block = options.block_size
        self.plan = plan
        self.metrics = Metrics(
            plan.name,
            options.speed,
            block=block,
            blocks=plan.blocks,
            context=plan.context,
            caching=options.enable_prefix_caching,
        )
        self.loras = Loras(options.lora_modules, options.max_lora_rank)
        self.ledger: Ledger | None = None
        self.publisher: Publisher | None = None
        config = options.kv_events_config
        if config is not None and config.on and options.enable_prefix_caching:
            self.ledger = Ledger(block)
            self.publisher = Publisher(config, self.ledger)
        listener = self.ledger.listen if self.ledger is not None else None
        self.replica, self.slow = plan.replica(policies, listener, self.loras.ranks)
        for number in range(len(self.loras.ranks)):
            self.preload(number)
        assert isinstance(self.replica.cache, KeepOutputs)
        self._keep = self.replica.cache
        self.driver = Driver(self.replica, watch=self.metrics.step, left=self._left)
        self.pace = Pace(self._due, options.speed)
        self._numbers = count()
        self._begun = Begun(SESSIONS)
        if self.publisher is not None:
            self.publisher.start()

    def take(
        self, kind: Callable[..., Reply], ask: EngineRequest, exchange: Outlet, name: str, session: bytes | None = None
    ) -> Reply:
        """Queue a request, its answer to be made by `kind`; session: its name, None for none."""
        now = self.pace.now()
        ids = ask.ids
        number = -1 if session is None else xxh3_64_intdigest(session)
        turn, begun_at = self._begun.next(number, now)
        request = RequestView(
            next(self._numbers), now, len(ask.prompt), ask.speech.tokens,
            ids, ends(len(ids), self.plan.options.block_size), priority=ask.priority,
            session=number, turn=turn, begun_at=begun_at, lora=self.loras.number(ask.model),
        )  # fmt: skip
        sequence = Sequence(request, ask.speech.tokens, output_id=0 if ids else -1)
        if ask.keep_s:
            self._keep.hinted[request.id] = ask.keep_s * SECOND
        details = self.plan.options.enable_prompt_tokens_details
        reply = kind(ask, exchange, sequence, self.metrics, name, int(time.time()), details)
        if self.ledger is not None:
            lora = ask.model if ask.model in self.loras.names else None
            self.ledger.bring(ids, ask.prompt + ask.speech.ids(), ask.salt, lora)
        return reply

    def run(self, reply: Reply) -> None:
        """Start a queued request."""
        self.driver.add(reply.sequence, reply, reply.arrived_at)
        self._after()

    def drop(self, reply: Reply) -> None:
        """The client has disconnected."""
        self.driver.abort(reply.sequence.id, self.pace.now())
        self._after()

    def preload(self, adapter: int) -> None:
        """Bring an adapter into host memory, where adapters take room."""
        if self.replica.adapters is not None:
            self.replica.adapters.preload(adapter)

    def change_speed(self, factor: float) -> None:
        """Steps take `factor` times as long, from the next one on."""
        self.slow.factor = factor
        for lane in self.replica.lanes:
            lane.reprice(lane.estimate)
        self.driver.look_again(self.pace.now())
        self._after()

    def reset_cache(self) -> bool:
        """Drop all cached prefixes; False, and no change, while requests hold blocks (vLLM's rule)."""
        self.driver.advance(self.pace.now())
        pool = self.replica.pool
        if self.replica.running:
            return False
        pool.settle(0)
        if self.ledger is not None:
            self.ledger.clear()
        self._after()
        return True

    async def stop(self) -> None:
        """Stop: nothing more is computed or published."""
        self.pace.stop()
        self.driver.listeners.clear()
        if self.publisher is not None:
            await self.publisher.stop()

    def _left(self, sequence: Sequence) -> None:
        self._keep.hinted.pop(sequence.id, None)
        if self.ledger is not None:
            self.ledger.release(sequence.request.ids)

    def _due(self, now: int) -> None:
        self.driver.advance(now)
        self._after()

    def _after(self) -> None:
        if self.publisher is not None and self.ledger is not None and self.ledger.events:
            self.publisher.flush()
        self.pace.wake(self.driver.next_at)
