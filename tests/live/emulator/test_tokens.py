"""Equal text has equal tokens, equal prefixes equal prefixes of tokens, and tokens turn back into text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.live.emulator.tokens import (
    BOS,
    CONTENT,
    END,
    ROLE,
    WORD_IDS,
    WORDS,
    Tokenizer,
    complete,
    converse,
    decode,
    encode,
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(TEXT)
def test_text_comes_back(text: str) -> None:
    tokens = encode(text)
    assert decode(tokens) == text
    assert len(tokens) == -(-len(text.encode()) // 4)


@given(TEXT, TEXT, TEXT)
def test_equal_prefixes_have_equal_tokens(head: str, one: str, other: str) -> None:
    whole = len(head.encode()) // 4
    assert encode(head + one)[:whole] == encode(head + other)[:whole] == encode(head)[:whole]


def test_a_word_is_a_token() -> None:
    assert len(set(WORDS)) == 1024
    assert all(encode(word).tolist() == [token] for word, token in zip(WORDS, WORD_IDS, strict=True))


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 200))
def test_a_speech_is_its_words(bits: int, tokens: int) -> None:
    speech = Tokenizer(bits, tokens, False)
    assert encode(speech.text()) == speech.ids()
    assert [speech.word(place) for place in range(tokens)] == [WORDS[speech.place(place)] for place in range(tokens)]
    assert len({speech.word(place) for place in range(min(tokens, 1024))}) == min(tokens, 1024), "no word comes twice"


def test_a_conversation_goes_on_where_it_ended() -> None:
    """Prompt and answer of one turn are a prefix of the next turn's prompt."""
    first = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    answer = Tokenizer(12345, 7, True)
    second = [*first, {"role": "assistant", "content": answer.text()}, {"role": "user", "content": "Why?"}]
    before = converse(first) + answer.ids()
    assert converse(second)[: len(before)] == before


def test_special_tokens_have_no_text() -> None:
    tokens = converse([{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " you"}]}])
    assert tokens.tolist() == [
        BOS,
        ROLE,
        *encode("user"),
        CONTENT,
        *encode("Hi you"),
        END,
        ROLE,
        *encode("assistant"),
        CONTENT,
    ]
    assert decode(tokens) == "userHi youassistant"
    assert complete("").tolist() == [BOS]


def test_tools_are_part_of_the_prompt() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    assert len(converse(messages, [{"type": "function"}])) > len(converse(messages))
    called = [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]
    assert '[{"id":"1"}]' in decode(converse(called))
