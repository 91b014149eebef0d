"""Adapters, responses that go on from others, and sessions: each to an engine that can, or that knows them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from poise.core.event import AdaptersChanged, Arrived
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.live.emulator.options import Options
from poise.live.gateway.settings import Settings
from poise.policies.find import build
from tests.live.emulator.clients import Line, ask
from tests.live.gateway.live import MODEL, Answer, Live
from tests.live.warp import run


def options(**given: Any) -> Options:
    return Options(MODEL, port=0, speed=20.0, faults=True, **given)


def taken(live: Live) -> list[int]:
    """How many requests each engine was sent so far."""
    return [engine.sent for engine in live.gateway.world.fleet]


def views(live: Live) -> list[RequestView]:
    """The requests that came, as policies saw them."""
    return [event.request for event in live.trace.events if isinstance(event, Arrived)]


def test_adapters_are_listed_and_requested_by_name() -> None:
    async def main() -> None:
        engines = [options(lora_modules=("sql=/adapters/sql", "tales"))] * 2
        async with Live(engines, build("router", "prefix_cache")) as live:
            listed = json.loads((await live.send(b"GET", b"/v1/models").wait()).body)["data"]
            assert [(row["id"], row.get("parent")) for row in listed] == [
                (MODEL, None), ("sql", MODEL), ("tales", MODEL),
            ]  # fmt: skip
            answer = await live.ask(model="sql").wait()
            assert answer.whole and b'"model":"sql"' in answer.body, "the engine is asked by the adapter's name"
            (view,) = views(live)
            assert (view.model, view.lora) == (0, 0)
            unknown = await live.ask(model="poems").wait()
            assert unknown.status == 404 and "there are: " + MODEL in unknown.error
            await live.check_balance()

    run(main())


def test_adapters_share_no_prefix_with_their_model() -> None:
    """Neither in an engine's cache nor in what the gateway believes of it."""

    async def main() -> None:
        given = options(lora_modules=("sql",), enable_prompt_tokens_details=True)
        async with Live([given], build("router", "prefix_cache")) as live:
            cached = []
            for model in (MODEL, "sql", "sql"):
                answer = await live.ask("A long common beginning. " * 60, stream=False, model=model).wait()
                cached.append(json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
            assert cached == [False, False, True]
            ids = [view.ids for view in views(live)]
            assert not set(ids[0]) & set(ids[1]) and ids[1] == ids[2] and ids[0]

    run(main())


def test_an_adapter_that_one_engine_lacks_is_found_at_another() -> None:
    async def main() -> None:
        async with Live([options(), options(lora_modules=("sql",))], build("router", "round_robin")) as live:
            answers = [await live.ask(model="sql").wait() for _ in range(6)]
            assert all(answer.whole for answer in answers)
            await live.check_balance()

    run(main())


def test_an_adapter_that_appears_later_is_listed_and_requested_and_goes_again() -> None:
    async def main() -> None:
        given = [options(allow_runtime_lora_updating=True)]
        async with Live(given, build("router", "round_robin")) as live:
            listed = lambda: live.gateway.world.fleet.slots[0].adapters  # type: ignore[union-attr]  # noqa: E731
            assert (await live.ask(model="sql").wait()).status == 404
            engine = live.engines[0]
            sql = {"lora_name": "sql", "lora_path": "/adapters/sql"}
            assert (await ask(engine, "POST", "/v1/load_lora_adapter", sql))[0] == 200
            await live.until(lambda: listed() == {"sql"})
            assert (await live.ask(model="sql").wait()).whole
            assert (await ask(engine, "POST", "/v1/unload_lora_adapter", sql))[0] == 200
            await live.until(lambda: not listed())
            names = json.loads((await live.send(b"GET", b"/v1/models").wait()).body)["data"]
            assert [row["id"] for row in names] == [MODEL]
            assert (await live.ask(model="sql").wait()).status == 404

    run(main())


def test_the_view_has_what_engines_say_of_their_adapters() -> None:
    """Requests that came past the gateway count too; its own go to where the adapter runs."""

    async def main() -> None:
        given = options(lora_modules=("sql", "tales"), enable_lora=True, max_loras=1, max_cpu_loras=2)
        async with Live([given, given], build("router", "lora_affinity", {"lora": 10.0})) as live:
            body = {"model": "tales", "prompt": "Once", "max_tokens": 2000, "ignore_eos": True}
            line = await Line.to(live.engines[1])
            line.send("POST", "/v1/completions", body)
            tales = live.gateway.api.adapters["tales"][1]
            state = live.control.state
            await live.until(lambda: list(state.adapters(1).running) == [tales])
            assert state.adapters(1).slots == 1
            answers = [await live.ask(model="tales").wait() for _ in range(3)]
            assert all(answer.whole for answer in answers)
            assert [view.lora for view in views(live)] == [tales] * 3
            assert taken(live) == [0, 3]
            await line.answer()
            await line.close()
            await live.until(lambda: not state.adapters(1).running)
            events = list(live.trace.events)
            assert any(isinstance(event, AdaptersChanged) for event in events)

    run(main())


def test_one_of_several_names_of_a_model_is_as_good_as_another() -> None:
    async def main() -> None:
        both = [options(served_model_name=("small", "cheap")), options(served_model_name=("small",))]
        async with Live(both, build("router", "round_robin")) as live:
            assert (await live.ask(model="bogus").wait()).status == 404, "before any good name was asked for, too"
            for name in ("small", "cheap") * 3:
                assert (await live.ask(model=name).wait()).whole, name
            await live.check_balance()

    run(main())


def respond(live: Live, previous: str | None = None, stream: bool = False) -> Answer:
    body: dict[str, Any] = {"model": MODEL, "input": "Go on", "max_output_tokens": 4, "stream": stream}
    if previous is not None:
        body["previous_response_id"] = previous
    return live.send(b"POST", b"/v1/responses", json.dumps(body).encode())


def response_id(answer: Answer) -> str:
    body = answer.body
    if answer.headers[b"content-type"].startswith(b"text/event-stream"):
        body = body.partition(b"data: ")[2].partition(b"\n")[0]
        return str(json.loads(body)["response"]["id"])
    return str(json.loads(body)["id"])


def test_a_response_goes_on_where_it_was_made() -> None:
    async def main() -> None:
        async with Live(3, build("router", "round_robin")) as live:
            for stream in (False, True):
                first = await respond(live, stream=stream).wait()
                before = taken(live)
                for _ in range(5):  # round robin would have gone elsewhere
                    after = await respond(live, response_id(first)).wait()
                    assert after.status == 200, after.error
                assert Counter(b - a for a, b in zip(before, taken(live), strict=True)) == {0: 2, 5: 1}
            await live.check_balance()
            again = Live(3, build("router", "round_robin"))
            assert replay(live.trace.events, again.control) == list(live.trace.actions), "its home is in the recording"

    run(main())


def test_a_response_whose_engine_is_gone_is_refused_by_another() -> None:
    async def main() -> None:
        async with Live(2, build("router", "round_robin")) as live:
            first = await respond(live).wait()
            (home,) = (slot for slot, engine in enumerate(live.gateway.world.fleet) if engine.sent)
            live.engines[home].fault("crash")
            await live.until(lambda: len(live.gateway.world.fleet.serving) == 1)
            answer = await respond(live, response_id(first)).wait()
            assert answer.status == 404 and "not found" in answer.error
            assert (await respond(live, "resp_made_up").wait()).status == 404
            assert (await respond(live, "\n" * 5000).wait()).status == 404
            await live.check_balance()

    run(main())


def test_a_request_that_waits_for_one_engine_keeps_no_other_waiting() -> None:
    """Its engine is full: it is held; others of its model go to the other engine meanwhile."""

    async def main() -> None:
        one = build("admission", "ceiling", {"requests": 1})
        patient = Settings(held_s=20)
        async with Live(2, admission=[one], settings=patient) as live:
            first = await respond(live).wait()
            (home,) = (slot for slot, engine in enumerate(live.gateway.world.fleet) if engine.sent)
            live.engines[home].fault("stall")
            live.engines[1 - home].fault("stall")
            stuck = [live.ask(tokens=2), live.ask(tokens=2)]
            await live.until(lambda: taken(live)[0] + taken(live)[1] == 3)
            waiting, other = respond(live, response_id(first)), live.ask(tokens=2)
            await live.until(lambda: len(live.control.held) == 2)
            live.engines[1 - home].clear()
            assert (await other.wait()).whole
            assert not waiting.over.is_set()
            live.engines[home].clear()
            assert (await waiting.wait()).status == 200
            for answer in stuck:
                await answer.wait()
            await live.check_balance()

    run(main())


def test_a_session_stays_with_its_engine() -> None:
    async def main() -> None:
        async with Live(3, build("router", "session_affinity")) as live:
            homes = []
            for number in range(12):
                before = taken(live)
                for turn in range(3):
                    headers = [(b"x-session-id", b"chat-%d" % number)]
                    assert (await live.ask(f"Turn {turn}", 2, headers=headers).wait()).whole
                sent = [b - a for a, b in zip(before, taken(live), strict=True)]
                assert sorted(sent) == [0, 0, 3], "all of one session to one engine"
                homes.append(sent.index(3))
            assert len(set(homes)) > 1, "sessions are spread"
            before = taken(live)
            for _ in range(3):
                assert (await live.ask("Turn", 2, prompt_cache_key="chat-x").wait()).whole, "as OpenAI's field has it"
            assert sorted(b - a for a, b in zip(before, taken(live), strict=True)) == [0, 0, 3]

    run(main())
