"""Adapters (LoRA) of one replica: which requests use them, which lie on the device, and which in host memory.

As in vLLM: the requests that run use at most `max_loras` different adapters, and a waiting one whose adapter would be
one more is skipped, and those behind it are tried (`v1/core/sched/scheduler.py`). An adapter is loaded when its first
request is admitted, and the step that follows takes longer by the load; the least recently used idle one is evicted,
from host memory too where that is full (`lora/model_manager.py`). What is on the device is in host memory as well.
An adapter is idle from the instant at which the last request that used it leaves the batch, so its place in that order
does not depend on how many steps a hold joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from poise.core.errors import PolicyError
from poise.core.estimate import AdapterCost
from poise.core.policy import IdleAdapter
from poise.core.request import Sequence

if TYPE_CHECKING:
    from poise.core.engine.replica import Replica


Evict = Callable[[list[IdleAdapter], int], int]
"""`evict_adapter(idle, now)` of a cache policy: the number of the one that leaves the device."""


class AdapterSlots:
    """One replica's adapters.

    running: by adapter, how many admitted requests use it.  device, host: adapters that lie there.
    loads, disk_loads: adapters brought to the device so far, and those of them that came from disk.
    changed: whether the set of running adapters changed since the last turn; steps of all lanes depend on it.
    """

    __slots__ = ("_cost", "_evict", "_idle", "_replica", "_uses", "changed", "device", "disk_loads", "host", "loads",
                 "running")  # fmt: skip

    def __init__(self, replica: Replica, cost: AdapterCost | None, evict: Evict | None) -> None:
        self._replica = replica
        self._cost = cost
        self._evict = evict
        self._idle: dict[int, int] = {}  # in host memory and unused, least recently used first: since when
        self._uses: dict[int, int] = {}
        self.running: dict[int, int] = {}
        self.device: set[int] = set()
        self.host: set[int] = set()
        self.loads = self.disk_loads = 0
        self.changed = False

    def admissible(self, waiting: Iterable[Sequence]) -> Iterator[Sequence]:
        """The waiting requests, without those whose adapter finds no slot if all before them were admitted."""
        planned, slots = set(self.running), self._replica.engine.max_loras
        for sequence in waiting:
            adapter = sequence.request.lora
            if adapter >= 0 and adapter not in planned:
                if len(planned) >= slots:
                    continue
                planned.add(adapter)
            yield sequence

    def waiting(self) -> tuple[int, ...]:
        """Adapters of waiting requests that no running one uses."""
        named = dict.fromkeys([sequence.request.lora for sequence in self._replica.waiting])
        return tuple([adapter for adapter in named if adapter >= 0 and adapter not in self.running])

    def fits(self, adapter: int) -> bool:
        """Whether a request with this adapter (-1: none) may run now."""
        return adapter < 0 or adapter in self.running or len(self.running) < self._replica.engine.max_loras

    def enter(self, adapter: int) -> int:
        """A request with this adapter begins to run; the picoseconds that its load takes."""
        if adapter < 0:
            return 0
        if not self.fits(adapter):
            raise PolicyError(
                f"{type(self._replica.batcher).__name__} admits a request of adapter {adapter}, and "
                f"{len(self.running)} others run, which is max_loras; go by `lane.queue()`, which leaves such out"
            )
        self._uses[adapter] = self._uses.get(adapter, 0) + 1
        if adapter in self.running:
            self.running[adapter] += 1
            return 0
        self.running[adapter] = 1
        self._idle.pop(adapter, None)
        time = 0 if adapter in self.device else self._load(adapter)
        self.stir()
        return time

    def leave(self, adapter: int) -> None:
        """A request with this adapter runs no more."""
        if adapter < 0:
            return
        self.running[adapter] -= 1
        if not self.running[adapter]:
            del self.running[adapter]
            self._idle[adapter] = self._replica.space.now
            self.stir()

    def stir(self) -> None:
        """The set of running adapters, or the device's speed, has changed: set what each further step takes longer."""
        self.changed = True
        read = 0
        if self._cost is not None and self.running:
            read = self._cost.launch() + sum([self._cost.read(adapter) for adapter in self.running])
        if self._replica.slowed != 1:
            read = round(read * self._replica.slowed)
        for lane in self._replica.lanes:
            lane.reading = read

    def preload(self, adapter: int) -> None:
        """Bring an adapter into host memory, and to the device while a slot is free; this takes no time of a step."""
        if adapter not in self.host:
            self._into_host(adapter)
            self._idle[adapter] = self._replica.space.now
        if len(self.device) < self._replica.engine.max_loras:
            self.device.add(adapter)

    def _load(self, adapter: int) -> int:
        """Bring an adapter to the device, another one leaving where there is no slot."""
        in_host = adapter in self.host
        self.loads += 1
        if not in_host:
            self.disk_loads += 1
            self._into_host(adapter)
        if len(self.device) >= self._replica.engine.max_loras:
            self.device.remove(self._victim())
        self.device.add(adapter)
        return self._cost.load(adapter, in_host) if self._cost is not None else 0

    def _into_host(self, adapter: int) -> None:
        engine = self._replica.engine
        if len(self.host) >= max(engine.max_cpu_loras, engine.max_loras):
            self._drop(next(iter(self._idle)))
        self.host.add(adapter)

    def _drop(self, adapter: int) -> None:
        """An idle adapter leaves host and device."""
        del self._idle[adapter]
        self.host.discard(adapter)
        self.device.discard(adapter)

    def _victim(self) -> int:
        """The idle adapter that leaves the device: the policy's choice, or the least recently used."""
        idle = [adapter for adapter in self._idle if adapter in self.device]
        if self._evict is None:
            return idle[0]
        shown = [IdleAdapter(each, self._back(each), self._uses.get(each, 0), self._idle[each]) for each in idle]
        chosen = self._evict(shown, self._replica.space.now)
        if chosen not in idle:
            raise PolicyError(
                f"{type(self._replica.cache).__name__} evicts adapter {chosen}, which is not idle here; give one of "
                f"{idle}"
            )
        return chosen

    def _back(self, adapter: int) -> int:
        return self._cost.load(adapter, True) if self._cost is not None else 0

    def check(self) -> None:
        """Raise AssertionError where slots or memories are over-full, or not as their definitions say."""
        engine = self._replica.engine
        assert len(self.running) <= engine.max_loras and all(count > 0 for count in self.running.values())
        assert len(self.device) <= engine.max_loras and set(self.running) <= self.device <= self.host
        assert len(self.host) <= max(engine.max_cpu_loras, engine.max_loras)
        assert set(self._idle) == self.host - set(self.running)
