"""Exact prefix identity: what is remembered in cuts equals tokenising the whole; ids equal those of KV events."""

from __future__ import annotations

import asyncio
import json
import threading
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from poise.core.errors import UserError
from poise.live.requests.chat_template import ChatTemplate
from poise.live.requests.hash_chain import block_ids, token_root
from poise.live.requests.token_prefix import Exact, Identity, Tokenising, TokenPrefix
from poise.live.telemetry.kv_events import Blocks, Change, decode, salted
from tests.live.requests.tokenizers_made import EXTRA, FAMILIES, SPECIAL, text, tokenizer

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _whole(family: str, prompt: str) -> list[int]:
    return list(tokenizer(family).encode(prompt, add_special_tokens=False).ids)


def _exact(block_tokens: int = 2, template: str | None = TEMPLATE) -> Exact:
    made = ChatTemplate({"default": template}, {"bos_token": "<s>"}) if template else None
    return Exact(TokenPrefix(tokenizer("bytes")), made, block_tokens)


def _body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


ODD = [" ", "  ", "\n", "word", "xword", "é", "漢字", "🙂", "<|user", "|>", "<", "x", "Later", "later", "\u00a0", "ﬁ"]
PROMPTS = st.lists(
    st.sampled_from([*SPECIAL, *(each.content for each in EXTRA), *ODD, *text()[:8]]) | st.text(max_size=5), max_size=14
).map("".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(PROMPTS, min_size=1, max_size=4), st.sampled_from(FAMILIES))
def test_cuts_equal_the_whole(prompts: list[str], family: str) -> None:
    """Any texts, one after the other and each going on from the last, with one memory."""
    tokens = TokenPrefix(tokenizer(family))
    grown = ""
    for prompt in prompts:
        grown += prompt
        assert tokens.encode(prompt).tolist() == _whole(family, prompt)
        assert tokens.encode(grown).tolist() == _whole(family, grown)


@pytest.mark.parametrize("family", FAMILIES)
def test_cuts_equal_the_whole_in_every_short_text(family: str) -> None:
    tokens = TokenPrefix(tokenizer(family))
    for four in product((" ", "ab", "word", "Later", "<left>", "<right>", "<|user|>", "x"), repeat=4):
        prompt = "".join(four)
        assert tokens.encode(prompt).tolist() == _whole(family, prompt), prompt


@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_turn_tokenises_its_tail_alone(family: str) -> None:
    tokens = TokenPrefix(tokenizer(family))
    rendered = "".join(f"<|user|>{line}</s><|assistant|>{line}</s>" for line in text()[:10])
    tokens.encode(rendered)
    before = tokens.misses
    more = rendered + "<|user|>one more</s><|assistant|>"
    assert tokens.encode(more).tolist() == _whole(family, more)
    assert tokens.misses - before <= 2 and tokens.hits >= 20


def test_the_memory_is_bounded() -> None:
    tokens = TokenPrefix(tokenizer("bytes"), room=100)
    for line in text():
        tokens.encode(f"<|user|>{line}")
        assert tokens._size <= 100 and tokens._size == sum(map(len, tokens._known))


def test_a_chat_is_hashed_in_blocks_of_its_tokens() -> None:
    messages = [{"role": "user", "content": text()[0]}, {"role": "assistant", "content": text()[1]}]
    rendered = f"<s><|user|>{text()[0]}</s><|assistant|>{text()[1]}</s><|assistant|>"
    tokens = _whole("bytes", rendered)
    found = _exact(4).identity("chat", _body(messages=messages))
    assert found == Identity(
        len(tokens), block_ids(tokens, 4, token_root(4)), tuple(range(4, len(tokens) // 4 * 4 + 1, 4))
    )


def test_a_completion_begins_with_bos_as_the_engine_has_it() -> None:
    exact = _exact()
    tokens = list(tokenizer("bytes").encode(text()[0]).ids)
    assert tokens[0] == tokenizer("bytes").token_to_id("<s>")
    for prompt in (text()[0], [text()[0], "another"]):
        assert exact.identity("completion", _body(prompt=prompt)) == Identity(
            len(tokens), block_ids(tokens, 2, token_root(2)), tuple(range(2, len(tokens) // 2 * 2 + 1, 2))
        )
    bare = exact.identity("completion", _body(prompt=text()[0], add_special_tokens=False))
    assert bare is not None and bare.prompt_tokens == len(tokens) - 1


def test_token_ids_need_no_tokenizer() -> None:
    expected = Identity(5, block_ids([1, 2, 3, 4, 5], 2, token_root(2)), (2, 4))
    assert _exact().identity("completion", _body(prompt=[1, 2, 3, 4, 5])) == expected
    assert _exact().identity("completion", _body(prompt=[[1, 2, 3, 4, 5], [6]])) == expected


def test_the_ids_are_those_of_the_engines_events() -> None:
    tokens = [1, 2, 3, 4, 5, 6]
    for lora, salt in (("", ""), ("ad", ""), ("", "s"), ("ad", "s")):
        keys = [each for each in (lora, salt) if each]
        stored = {
            "type": "BlockStored",
            "block_hashes": [1, 2, 3],
            "parent_block_hash": None,
            "token_ids": tokens,
            "block_size": 2,
            "lora_name": lora or None,
            "extra_keys": [keys or None, *([[lora] if lora else None] * 2)],
        }
        batch = decode(msgpack.encode([0.0, [stored]]))
        assert not isinstance(batch, str)
        change = Blocks().apply(batch)
        found = _exact().identity("completion", _body(prompt=tokens, cache_salt=salt), lora)
        assert isinstance(change, Change) and found is not None
        assert change.entered == found.ids == block_ids(tokens, 2, token_root(2, lora), salted(salt))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
        ("chat", {"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ 1 }}"}),
        ("chat", {"messages": [{"role": "user", "content": "x"}], "continue_final_message": True}),
        ("chat", {"messages": 3}),
        ("chat", {}),
        ("completion", {}),
        ("completion", {"prompt": [1, -1]}),
        ("completion", {"prompt": [1, "a"]}),
        ("completion", {"prompt": {}}),
        ("responses", {"input": "x"}),
    ],
)
def test_what_cannot_be_known_is_none(kind: str, fields: dict[str, Any]) -> None:
    assert _exact().identity(kind, _body(**fields)) is None


def test_without_a_template_a_chat_is_none() -> None:
    assert _exact(template=None).identity("chat", _body(messages=[{"role": "user", "content": "x"}])) is None


def test_a_folder_of_a_model(tmp_path: Path) -> None:
    tokenizer("bytes").save(str(tmp_path / "tokenizer.json"))
    config = {"chat_template": TEMPLATE, "bos_token": {"content": "<s>"}, "pad_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    body = _body(messages=[{"role": "user", "content": text()[0]}])
    assert Exact.of(tmp_path, 2).identity("chat", body) == _exact().identity("chat", body) is not None


def test_a_folder_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.json: no such file"):
        Exact.of(tmp_path, 2)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json: is not a tokenizer"):
        Exact.of(tmp_path, 2)


def test_the_loop_goes_on_while_a_thread_tokenises() -> None:
    class Slow(Exact):
        __slots__ = ("gate",)

        def identity(self, kind: str, body: bytes, lora: str = "") -> Identity | None:
            assert threading.current_thread() is not threading.main_thread()
            self.gate.wait(20)
            return super().identity(kind, body, lora)

    async def main() -> None:
        base = _exact()
        slow = Slow(base.tokens, base.template, base.block_tokens)
        slow.gate = threading.Event()  # type: ignore[attr-defined]
        tokenising = Tokenising(slow, most=2)
        answers: list[asyncio.Future[Identity | None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
        body = _body(prompt=[1, 2, 3])
        assert [tokenising.ask("completion", body, "", each.set_result) for each in answers] == [True, True]
        assert not tokenising.ask("completion", body, "", lambda found: None)  # one too many
        slow.gate.set()  # type: ignore[attr-defined]
        async with asyncio.timeout(20):
            assert await asyncio.gather(*answers) == [base.identity("completion", body)] * 2
        assert tokenising.waiting == 0
        tokenising.close()

    asyncio.run(main())


def test_a_failure_in_the_thread_leaves_no_request_waiting() -> None:
    class Broken(Exact):
        def identity(self, kind: str, body: bytes, lora: str = "") -> Identity | None:
            raise RuntimeError("broken")

    async def main() -> tuple[Identity | None, list[str]]:
        reported: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        base = _exact()
        tokenising = Tokenising(Broken(base.tokens, base.template, base.block_tokens))
        answer: asyncio.Future[Identity | None] = loop.create_future()
        assert tokenising.ask("chat", b"{}", "", answer.set_result)
        async with asyncio.timeout(20):
            found = await answer
        tokenising.close()
        return found, reported

    assert asyncio.run(main()) == (None, ["broken"])
