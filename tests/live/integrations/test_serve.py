"""The gateway file's section `envoy`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.core.records.trace import Trace
from poise.live.gateway.gateway import Gateway
from poise.live.integrations.choice import Fallback, Subset
from poise.live.integrations.ext_proc_request import ExtProcRequest, Picked
from poise.policies.admit.ceiling import Ceiling
from poise.recordings.control import control_of
from poise.scenario.options import ServeOptions
from poise.scenario.serve.build import Plan, gateway_of, plan, record
from poise.scenario.serve.command import serve
from poise.scenario.serve.envoy import open_envoy
from poise.scenario.serve.load import load_gateway

EXAMPLE = Path(__file__).parents[3] / "examples" / "envoy" / "gateway.yaml"


def test_the_example_has_second_choices_and_keeps_to_subsets() -> None:
    control = plan(load_gateway(EXAMPLE, ["policies.admission=ceiling", "envoy.fallbacks=2"])).control
    assert isinstance(control.router, Fallback) and control.router.most == 2
    assert [type(each) for each in control.admission] == [Subset, Ceiling]


def test_the_ready_line_names_the_files_router(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_run(plan: Plan, ready: Callable[[Gateway, int, int], None], reread: object) -> bool:
        gateway = gateway_of(plan)
        gateway.host = "h"
        ready(gateway, 1, 0)
        await gateway.stop(0)
        return True

    monkeypatch.setattr("poise.scenario.serve.run.run", no_run)
    monkeypatch.setattr("poise.live.gateway.logs.start", lambda level, form: None)
    serve(ServeOptions(file=EXAMPLE, sets=["shadow=round_robin"], router="dualmap"))
    assert capsys.readouterr().out == "poise: serving on http://h:1/v1 by dualmap; stop with Ctrl-C\n"


def test_a_recording_says_how_many_may_be_tried(tmp_path: Path) -> None:
    async def main() -> None:
        planned = plan(load_gateway(EXAMPLE, [f"record.file={tmp_path / 'day.jsonl'}", "envoy.fallbacks=2"]))
        gateway = gateway_of(planned)
        record(planned, gateway, 1)
        await gateway.stop(0)

    asyncio.run(main())
    control = control_of(Trace.load(tmp_path / "day.jsonl").header)
    assert isinstance(control.router, Fallback) and control.router.most == 2
    assert [type(each) for each in control.admission] == [Subset]


def test_a_file_without_it_opens_nothing() -> None:
    planned = plan(load_gateway(None, ["engines=[http://127.0.0.1:1]"]))
    assert not isinstance(planned.control.router, Fallback)

    async def main() -> None:
        gateway = gateway_of(planned)
        assert await open_envoy(planned, gateway) is None
        await gateway.stop(0)

    asyncio.run(main())


def test_it_opens_beside_the_gateway() -> None:
    pytest.importorskip("grpc", reason="needs the extra `envoy`")
    pytest.importorskip("google.protobuf", reason="needs the extra `envoy`")

    async def main() -> None:
        planned = plan(load_gateway(EXAMPLE, ["envoy.port=0"]))
        gateway = gateway_of(planned)
        front = await open_envoy(planned, gateway)
        assert front is not None and gateway.api.proxied_requests[ExtProcRequest] is Picked
        await front.stop(0)
        half = plan(load_gateway(EXAMPLE, ["envoy.port=0", "envoy.tls_key=none.pem"]))
        with pytest.raises(UserError, match=r"envoy\.tls_key.*none\.pem' cannot be read"):
            await open_envoy(half, gateway)
        await gateway.stop(0)

    asyncio.run(main())
