"""The commands `poise serve` and `poise engine` after their options are parsed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from poise.core.errors import UserError
from poise.core.extras import install
from poise.core.posix import need_posix

if TYPE_CHECKING:
    from poise.live.gateway.gateway import Gateway
    from poise.scenario.options import DemoOptions, ServeOptions
    from poise.scenario.override import Override
    from poise.scenario.serve.build import Plan

T = TypeVar("T")

EXTRA = ("uvloop", "httptools", "zmq", "prometheus_client", "xxhash", "tokenizers", "jinja2")
"""Modules of the extra `live`."""


def serve(options: ServeOptions) -> None:
    """Serve until a signal. Requests that are cut off then get an error, which is a normal end: no exception."""
    need_live("poise serve")
    from poise.live.gateway.logs import start as start_log
    from poise.scenario.serve.build import plan
    from poise.scenario.serve.load import load_gateway
    from poise.scenario.serve.run import run

    def read(before: Plan | None = None) -> Plan:
        return plan(load_gateway(options.file, options.sets, list(_shorthands(options))), before)

    planned = read()
    log = planned.loaded.gateway.log
    start_log(log.level, log.format)
    (router,) = planned.policies["router"]
    if planned.file.workers == 1:
        in_loop(run(planned, partial(_report_ready, router), read))
    else:
        _serve_in_workers(planned, router, read)


def _serve_in_workers(planned: Plan, router: str, read: Callable[[Plan | None], Plan]) -> None:
    """Serve in several processes until a signal."""
    from poise.scenario.serve.run import run
    from poise.scenario.serve.sharing import Worker
    from poise.scenario.serve.workers import Workers

    def work(worker: Worker, ready: Callable[[int], None]) -> None:
        in_loop(run(planned, lambda gateway, port, page: ready(page), read, worker))

    def report(pages: list[int]) -> None:
        shown = f", their pages at {', '.join(f'http://127.0.0.1:{page}/' for page in pages)}" if all(pages) else ""
        where = _url(planned.loaded.gateway.listen.host, workers.port)
        print(f"poise: serving on {where} by {router} with {len(pages)} workers{shown}; stop with Ctrl-C", flush=True)

    workers = Workers(planned, work)
    workers.serve(report)


def show_live(options: DemoOptions) -> bool:
    """Run the live demonstration and print its result; returns whether it was interrupted."""
    need_live("poise demo-live")
    import webbrowser

    from poise.scenario.serve.demo import demo_live, summary

    demo = in_loop(
        demo_live(
            options.out, options.router, seconds=options.seconds, port=options.port, admin_port=options.admin_port,
            opened=webbrowser.open if options.browser else lambda page: None,
            say=lambda line: print(line, flush=True),
        )
    )  # fmt: skip
    print(summary(demo, options.router))
    return demo.interrupted


def emulate(given: dict[str, Any]) -> int:
    """Run an emulated engine with these options of `poise engine` until a signal; returns the exit code."""
    need_live("poise engine")
    from poise.live.emulator.main import run
    from poise.live.emulator.options import Options
    from poise.live.emulator.publish import parse_kv_events
    from poise.policies import Policies

    config = given["kv_events_config"]
    lists = {name: tuple(given[name] or ()) for name in ("served_model_name", "lora_modules", "api_key")}
    options = Options(**{**given, **lists, "kv_events_config": config and parse_kv_events(config)})
    return run(options, Policies())


def need_live(command: str) -> None:
    """UserError on Windows, and if a library of the extra `live` is missing."""
    need_posix(command)
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"{command}: needs {', '.join(missing)}; {install('live')}")


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in uvloop's loop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _shorthands(options: ServeOptions) -> Iterator[Override]:
    """Options that stand for a field of the gateway file."""
    from poise.scenario.read import parse_value

    if options.engines:
        yield ("engines",), list(options.engines), f"--engine {options.engines[0]}"
    plain = {
        ("policies", "router"): ("--router", options.router),
        ("shadow",): ("--shadow", options.shadow and options.shadow.removeprefix("router=")),
        ("listen", "port"): ("--port", options.port),
        ("admin", "port"): ("--admin-port", options.admin_port),
        ("workers",): ("--workers", options.workers),
    }
    for path, (option, value) in plain.items():
        if value is not None:
            yield path, parse_value(value, f"{option} {value}"), f"{option} {value}"
    for path, option, text in (
        (("listen", "host"), "--host", options.host),
        (("record", "file"), "--record", options.record),
    ):
        if text is not None:
            yield path, text, f"{option} {text}"


def _report_ready(router: str, gateway: Gateway, port: int, page: int) -> None:
    shown = f", its page at http://127.0.0.1:{page}/" if page else ""
    print(f"poise: serving on {_url(gateway.host, port)} by {router}{shown}; stop with Ctrl-C", flush=True)


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
