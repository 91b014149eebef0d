"""Bodies of requests that generate nothing or are about sound: their prompts, their work, and what is wrong."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.requests.audio_request import POSITION_BYTES
from poise.live.requests.form import MOST, Form, read_form
from poise.live.requests.parsed_request import BadRequest, ParsedRequest
from poise.live.requests.paths import READERS


def request(path: str, given: Any) -> ParsedRequest:
    found = READERS[path.encode()](given if isinstance(given, bytes) else json.dumps(given).encode())
    assert isinstance(found, ParsedRequest), found
    return found


def form(fields: dict[str, str], sound: bytes | None = b"RIFF", boundary: bytes = b"xyz") -> bytes:
    parts = [
        b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (boundary, name.encode(), value.encode())
        for name, value in fields.items()
    ]
    if sound is not None:
        head = b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n'
        parts.append((head % boundary) + b"\r\n" + sound + b"\r\n")
    return b"".join(parts) + b"--%b--\r\n" % boundary


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_a_query_is_read_with_each_document(path: str) -> None:
    found = request(path, {"model": "m", "query": "why", "documents": ["ab", {"text": "cde"}, "f"]})
    assert (found.kind, found.text, found.max_tokens) == ("rerank", b"why\x1fab", 1)
    assert found.more == len("why\x1fcde") + len("why\x1ff"), "the query is computed with each document"


@pytest.mark.parametrize(
    "names",
    [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"), ("queries", "items"), ("query", "items")],
)
def test_scores_of_pairs(names: tuple[str, str]) -> None:
    first, second = names
    found = request("/score", {first: "q", second: ["a", "bc"]})
    assert (found.text, found.more, found.model) == (b"q\x1fa", 4, "")
    pairs = request("/v1/score", {first: ["q", "rr"], second: ["a", "bc"]})
    assert (pairs.text, pairs.more) == (b"q\x1fa", 5)


@pytest.mark.parametrize("path", ["/classify", "/pooling", "/v1/embeddings"])
def test_inputs_are_prompts_without_output(path: str) -> None:
    assert request(path, {"model": "m", "input": "abc"}).text == b"abc"
    assert request(path, {"model": "m", "input": [1, 2]}).text == array("I", [1, 2]).tobytes()
    chat = request(path, {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    assert chat.text == b"user\x1fhi\x1e"
    assert all(request(path, {"model": "m", "input": "x"}).max_tokens == 1 for _ in range(1))


def test_a_plugins_data_count_by_their_size() -> None:
    found = request("/pooling", {"data": {"any": "x" * 400}})
    assert 100 <= found.prompt_tokens() <= 110


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize"])
def test_a_tokenizer_alone_is_no_work(path: str) -> None:
    found = request(path, {"prompt": "x" * 4000, "tokens": [1] * 4000, "content": "x"})
    assert (found.text, found.prompt_tokens(), found.max_tokens) == (b"", 1, 1)


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/audio/translations"])
def test_a_sound_counts_by_its_bytes(path: str) -> None:
    sound = bytes(range(256)) * 250
    found = request(path, form({"model": "whisper", "stream": "true", "prompt": "names: Bo"}, sound))
    assert (found.model, found.stream, found.media, found.max_tokens) == ("whisper", True, 1, 0)
    assert found.text.startswith(b"names: Bo\x1f")
    assert found.prompt_tokens() == len(found.text) // 4 + len(sound) // POSITION_BYTES
    other = request(path, form({"model": "whisper"}, sound[:-1]))
    assert not other.stream and other.text.split(b"\x1f")[1] != found.text.split(b"\x1f")[1]


def test_speech_has_its_text_as_the_prompt() -> None:
    found = request("/v1/audio/speech", {"model": "tts", "input": "Say this.", "voice": "a"})
    assert (found.text, found.stream) == (b"\x1fSay this.", False)
    assert request("/v1/audio/speech", {"model": "tts", "input": "x", "stream_format": "sse"}).stream


@pytest.mark.parametrize(
    ("path", "body", "param", "expected"),
    [
        ("/rerank", {"query": "x"}, "documents", "documents is missing"),
        ("/score", {"text_1": "x"}, "text_2", "give text_1 and text_2"),
        ("/score", {"documents": ["x"]}, "text_1", "text_1 is missing"),
        ("/classify", {"model": "m"}, "input", "input is missing"),
        ("/tokenize", {"model": 5}, "model", "Expected `str | null`, got `int`"),
        ("/v1/audio/speech", {"input": "x"}, "model", "model is missing"),
        ("/v1/audio/transcriptions", {"model": "m"}, None, "send multipart/form-data"),
        ("/v1/audio/transcriptions", form({"model": "m"}, None), "file", "give a sound as a file"),
        ("/v1/audio/transcriptions", form({"model": "m"})[:-9], None, "send its last boundary"),
    ],
)
def test_what_is_wrong_is_named(path: str, body: Any, param: str | None, expected: str) -> None:
    found = READERS[path.encode()](body if isinstance(body, bytes) else json.dumps(body).encode())
    assert isinstance(found, BadRequest) and (found.status, found.param) == (400, param)
    assert expected in found.message


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.text(st.characters(codec="utf-8"))), st.binary())
def test_forms_are_read_as_they_are_written(fields: dict[str, str], sound: bytes) -> None:
    boundary = b"--a-boundary-that-no-value-has"
    found = read_form(form(fields, sound, boundary))
    assert isinstance(found, Form)
    assert (found.fields, {name: bytes(value) for name, value in found.files.items()}) == (fields, {"file": sound})


@given(st.binary() | st.binary().map(lambda data: b"--xyz\r\n" + data))
def test_any_bytes_are_a_form_or_not(data: bytes) -> None:
    assert isinstance(read_form(data), Form | str)


def test_a_form_of_very_many_parts_is_not_read() -> None:
    assert read_form(form({str(each): "" for each in range(MOST)})) == f"the form has more than {MOST} parts"
