"""Made traffic says what clients would."""

from __future__ import annotations

import asyncio

from poise.live.http.call import Address
from poise.live.traffic import ANSWERED, Traffic, spoken
from poise.workload import all_at_once, sessions, uniform
from tests.live.gateway.live import MODEL, Live

BLOCK = 16


def test_a_conversation_repeats_what_was_answered() -> None:
    """Each later turn finds the whole blocks of what was asked before it, and of the answer but for its last token."""
    starts = all_at_once(4, prompt_tokens=uniform(50, 200), output_tokens=uniform(20, 90), seed=1)
    load = sessions(starts, turns=4, think_s=0.01, user_tokens=30)

    async def main() -> int:
        async with Live(1, speed=100.0) as live:
            ended = await Traffic(load, Address("127.0.0.1", live.port), MODEL, speed=100.0).run()
            assert (ended.how == ANSWERED).all()
            await live.check_balance()
            return live.engines[0].core.metrics.cached_tokens

    assert load.after_ids is not None
    before = load.prompt[load.after_ids] + load.output[load.after_ids]  # one token begins the text, one is not computed
    assert asyncio.run(main()) == int((before // BLOCK * BLOCK).sum())


def test_what_is_no_stream_has_no_text() -> None:
    assert spoken(b'data: {"choices": [{"text": "a b"}]}\n\ndata: {"usage": 1}\n\ndata: [DONE]\n\n') == "a b"
    assert spoken(b"data: {\n\ndata: [DONE]\n\n") is None
    assert spoken(b"[DONE]") == ""
