"""The gateway file's section `envoy`: its endpoint picker, opened next to the gateway's own port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.live.gateway.gateway import Gateway
from poise.scenario.serve.build import Plan

if TYPE_CHECKING:
    from poise.live.integrations.ext_proc import ExtProc


async def open_envoy(plan: Plan, gateway: Gateway) -> ExtProc | None:
    """Listen for Envoy once the engines are known; None if the file has no such section."""
    section = plan.loaded.gateway.envoy
    if section is None:
        return None
    from poise.live.integrations.ext_proc import ExtProc  # gRPC, which is needed only here

    front = ExtProc(gateway)
    await front.start(section.host, section.port, _tls(plan))
    return front


def _tls(plan: Plan) -> tuple[bytes, bytes] | None:
    """Key and certificate chain; None for neither."""
    section = plan.loaded.gateway.envoy
    assert section is not None
    if section.tls_cert is None and section.tls_key is None:
        return None
    found = []
    for name, text in (("tls_key", section.tls_key), ("tls_cert", section.tls_cert)):
        if text is None:
            raise plan.loaded.places.error(("envoy", name), "is missing, and the other one is given; give a PEM file")
        try:
            found.append(plan.loaded.file(text, ("envoy", name)).read_bytes())
        except OSError as error:
            message = f"{text!r} cannot be read ({error.strerror}); give a PEM file"
            raise plan.loaded.places.error(("envoy", name), message) from None
    return found[0], found[1]
