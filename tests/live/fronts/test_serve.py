"""The gateway file's section `envoy`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.live.fronts.choice import Fallback, Subset
from poise.live.fronts.passage import Passage, Picked
from poise.policies.admit.ceiling import Ceiling
from poise.scenario.serve.build import gateway_of, plan
from poise.scenario.serve.envoy import open_envoy
from poise.scenario.serve.load import load_gateway

EXAMPLE = Path(__file__).parents[3] / "examples" / "envoy" / "gateway.yaml"


def test_the_example_has_second_choices_and_keeps_to_subsets() -> None:
    control = plan(load_gateway(EXAMPLE, ["policies.admission=ceiling", "envoy.fallbacks=2"])).control
    assert isinstance(control.router, Fallback) and control.router.most == 2
    assert [type(each) for each in control.admission] == [Subset, Ceiling]


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
        assert front is not None and gateway.desk.trips[Passage] is Picked
        await front.stop(0)
        half = plan(load_gateway(EXAMPLE, ["envoy.port=0", "envoy.tls_key=none.pem"]))
        with pytest.raises(UserError, match=r"envoy\.tls_key.*none\.pem' cannot be read"):
            await open_envoy(half, gateway)
        await gateway.stop(0)

    asyncio.run(main())
