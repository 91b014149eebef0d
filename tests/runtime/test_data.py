"""Packed and padded documents hold every token once in an epoch, with targets of its own document."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.runtime.data import Bytes, Packed, Padded
from poise.runtime.documents import read_documents
from poise.runtime.loss import IGNORED

documents = st.lists(st.integers(1, 12), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) >= 4)


def numbered(sizes: list[int]) -> list[np.ndarray]:
    """Documents in which no token is there twice."""
    starts = np.cumsum([0, *sizes])
    return [np.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)]


@given(documents, st.integers(1, 4), st.integers(0, 5))
def test_a_packed_epoch_has_every_token_at_most_once(sizes: list[int], length: int, seed: int) -> None:
    given_ = numbered(sizes)
    ends = {int(each[-1]) for each in given_}
    rows = sum(sizes) // length
    tokens, target, shared = Packed(given_, length, rows, seed).batch(0)
    assert tokens.shape == (rows, length)
    assert max(Counter(tokens.flatten().tolist()).values()) == 1
    for row in range(rows):
        for at in range(length):
            token, goal = int(tokens[row, at]), int(target[row, at])
            assert goal == (IGNORED if token in ends else token + 1)
            if at:
                same = bool(shared["documents"][row, at] == shared["documents"][row, at - 1])
                assert same == (token == tokens[row, at - 1] + 1 and int(tokens[row, at - 1]) not in ends)
                assert shared["positions"][row, at] == (shared["positions"][row, at - 1] + 1 if same else 0)
            else:
                assert shared["positions"][row, 0] == 0


@given(documents, st.integers(1, 4), st.integers(1, 3), st.integers(0, 9))
def test_a_step_does_not_depend_on_those_before(sizes: list[int], length: int, rows: int, step: int) -> None:
    for kind in (Packed, Padded):
        fresh, used = (kind(numbered(sizes), length, rows, 1) for _ in range(2))
        for before in range(step):
            used.batch(before)
        one, two = fresh.batch(step), used.batch(step)
        assert torch.equal(one.tokens, two.tokens) and torch.equal(one.target, two.target)
        assert all(torch.equal(one.shared[name], two.shared[name]) for name in one.shared)


@given(documents, st.integers(1, 14), st.integers(0, 3))
def test_padded_rows_are_the_documents(sizes: list[int], length: int, seed: int) -> None:
    given_ = numbered(sizes)
    tokens, target, shared = Padded(given_, length, len(sizes), seed).batch(0)
    seen = []
    for row in range(len(sizes)):
        real = tokens[row][shared["documents"][row] == 0].tolist()
        document = next(each for each in given_ if int(each[0]) == real[0])
        seen.append(int(document[0]))
        assert real == document[:length].tolist()
        goals = document[1 : length + 1].tolist()
        assert target[row].tolist() == goals + [IGNORED] * (length - len(goals))
    assert sorted(seen) == [int(each[0]) for each in given_]


def test_windows_of_bytes_have_the_next_byte_as_target(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(bytes(range(200)))
    tokens, target, shared = Bytes(file, 10, 6, seed=2).batch(3)
    assert torch.equal(target, tokens + 1) and not shared


def test_epochs_have_orders_of_their_own() -> None:
    data = Packed(numbered([3] * 20), 3, 20, 0)
    assert not torch.equal(data.batch(0).tokens, data.batch(1).tokens)
    assert sorted(data.batch(0).tokens[:, 0].tolist()) == sorted(data.batch(1).tokens[:, 0].tolist())


def test_lines_of_text_and_tokens(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text('{"text": "ab"}\n\n{"tokens": [5, 6, 7]}\n{"text": ""}\n')
    assert [each.tolist() for each in read_documents(file, 256)] == [[97, 98], [5, 6, 7]]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{}", 'line 1: must be an object with "text" or "tokens"'),
        ('{"text": "ab"}\nno', "line 2: must be an object"),
        ('{"tokens": [1, -1]}', "must be a list of whole numbers"),
        ('{"text": 3}', '"text" must be a string'),
        ('{"tokens": [1, 300]}', "line 1: has the token 300, the model a vocabulary of 256"),
        ('{"text": "a"}', "has no document of two tokens"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, content: str, error: str) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        read_documents(file, 256)
    assert error in str(caught.value) and str(file) in str(caught.value)
