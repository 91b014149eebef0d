"""Several processes that serve one port: started, watched, restarted and stopped together.

Each worker is a whole gateway with a loop of its own. The system spreads connections over them (SO_REUSEPORT), and
they share load, limits, fairness and prefixes through the sockets of `peers.mesh`. The first process serves nothing: it
forks the workers, passes signals on, and starts a worker again that died.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from poise.core.errors import UserError
from poise.scenario.serve.build import Plan
from poise.scenario.serve.sharing import Worker

log = logging.getLogger("poise.gateway")

SOON_S: Final = 5.0
"""A worker that died sooner after its start is started again later and later."""
WAITS_S: Final = (0.0, 0.1, 0.5, 2.0, 5.0)
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
READY: Final = b"ready "
"""What a worker writes when it serves, before the port of its page; else the error for which it does not."""

Work = Callable[[Worker, Callable[[int], None]], Any]
"""Serves as a worker until a signal; calls the function with the port of its page once it does."""


class Workers:
    """The workers of one gateway.

    work: what each does, in a process of its own.
    """

    def __init__(self, plan: Plan, work: Work) -> None:
        self._count = plan.file.workers
        self._work = work
        self._port, self._held = _reserved(plan)
        self._folder = Path(tempfile.mkdtemp(prefix="poise-"))
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._deaths = [0] * self._count
        self._stopping = False

    @property
    def port(self) -> int:
        """The port of all."""
        return self._port

    def serve(self, ready: Callable[[list[int]], None]) -> None:
        """Serve until SIGTERM or SIGINT. ready: called with the ports of the workers' pages once all serve.

        UserError where a worker cannot start.
        """
        try:
            for number in SIGNALS:
                signal.signal(number, self._pass_on)
            pipes = [self._start(number) for number in range(self._count)]
            words = [_word(pipe) for pipe in pipes]
            failed = [word for word in words if not word.startswith(READY)]
            if failed:
                self._stop()
                self._wait()
                raise UserError(failed[0].decode() or "a worker died before it served; its last lines say why")
            if not self._stopping:
                ready([int(word.removeprefix(READY)) for word in words])
            self._wait()
        finally:
            self._held.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, number: int) -> int:
        """Fork a worker; returns the pipe on which it says that it serves."""
        read, write = os.pipe()
        sys.stdout.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # one that came in between would miss the new worker
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os._exit(self._run(number, write))
        self._numbers[pid] = number
        self._began[pid] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(write)
        return read

    def _run(self, number: int, pipe: int) -> int:
        """In the worker's process; returns its exit code."""
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            worker = Worker(number, self._count, self._port, self._folder, os.getppid())
            self._work(worker, lambda page: _say(pipe, READY + str(page).encode()))
        except UserError as error:
            log.error("worker %d cannot serve: %s", number, error)
            _say(pipe, str(error).encode())
            return 2
        except BaseException:
            log.exception("worker %d ended", number)
            return 1
        finally:
            sys.stdout.flush()
        return 0

    def _wait(self) -> None:
        """Until all have ended; those that die before are started again."""
        while self._numbers:
            pid, status = os.wait()
            number = self._numbers.pop(pid, None)
            if number is None:
                continue
            lived = time.monotonic() - self._began.pop(pid)
            if self._stopping:
                continue
            self._deaths[number] = self._deaths[number] + 1 if lived < SOON_S else 0
            wait = WAITS_S[min(self._deaths[number], len(WAITS_S) - 1)]
            log.error("worker %d died (%s); it is started again in %g s", number, _cause(status), wait)
            time.sleep(wait)
            if not self._stopping:
                os.close(self._start(number))

    def _pass_on(self, number: int, _: Any) -> None:
        """A signal for all workers."""
        if number == signal.SIGHUP:
            self._signal(number)
        else:
            self._stop()

    def _stop(self) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for pid in list(self._numbers):
            os.kill(pid, number)


def _reserved(plan: Plan) -> tuple[int, socket.socket]:
    """The port of all workers, and a socket that keeps it although it never listens; UserError where it is taken."""
    listen = plan.loaded.gateway.listen
    try:
        family, *_, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
    except OSError as error:
        text = f"{listen.host}:{listen.port} cannot be listened on ({error.strerror or error})"
        raise plan.loaded.places.error(("listen", "port"), f"{text}; choose another port or address") from None
    return int(held.getsockname()[1]), held


def _say(pipe: int, word: bytes) -> None:
    """To the first process; it no longer reads what a worker says that was started again."""
    try:
        os.write(pipe, word)
        os.close(pipe)
    except OSError:
        pass


def _word(pipe: int) -> bytes:
    """What a worker says; empty where it died before it could."""
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"
