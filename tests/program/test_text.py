"""The text of a Program reads back to an equal one, and what is wrong in it is named with its line."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ProgramError, UserError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Content, Lane, Program, Task, Value
from poise.program.text import load_program, read_program, write_program
from tests.depth import examples

words = st.text("ab0.#_-|>=:'\"é", min_size=1, max_size=4).filter(lambda word: word not in ("->", "|", "="))
names_of_values = words.filter(lambda word: not word.endswith(":"))
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join)
fractions = st.fractions(-9, 9, max_denominator=99)
numbers = st.integers() | fractions | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["1..3", "none", "3", "a.b"])
tuples = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
atoms = st.lists(scalars, max_size=3).map(tuple)
small = st.tuples(st.sampled_from(["w0", "x"]), st.integers(0, 2), st.integers(0, 5))
sums: st.SearchStrategy[Any] = st.dictionaries(atoms | small, fractions | st.integers(-3, 3), max_size=8)
kinds = st.sampled_from(["F", "all_reduce", "d-2", "_k.1"])
sizes = st.floats(0, 1e18) | st.integers(0, 10**9)


@st.composite
def values(draw: st.DrawFn) -> str:
    return f"{draw(names_of_values)}@{draw(st.integers(0, 2))}"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any Program, of tasks that need not fit together."""
    lanes = draw(st.lists(st.builds(Lane, st.integers(0, 2), phrases), unique=True, max_size=3))
    task = st.tuples(
        kinds, st.lists(values(), max_size=3).map(tuple), st.lists(values(), max_size=3).map(tuple),
        st.floats(0, 1e18), st.lists(st.integers(0, 9), max_size=3).map(tuple), tuples,
    )  # fmt: skip
    rows = {lane: tuple(Task(kind, *lane, *more) for kind, *more in draw(st.lists(task, max_size=3))) for lane in lanes}
    tiers = st.sampled_from(["device", "host", "disk-2"])
    sized = draw(st.dictionaries(values(), st.tuples(sizes, tiers), max_size=4))
    return Program(
        rows, {name: Value(name, *each) for name, each in sized.items()},
        draw(st.dictionaries(values(), st.builds(Content, sums, st.sampled_from([(0, 1), (1, 4)])), max_size=3)),
        draw(st.dictionaries(values(), sums, max_size=3)),
        tuple(map(tuple, draw(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=6)))),
        frozenset(draw(st.lists(phrases, max_size=2))), draw(st.just("") | phrases),
    )  # fmt: skip


@pytest.mark.deep
@given(programs())
@settings(max_examples=examples(1600), deadline=None)
def test_any_program_reads_back(program: Program) -> None:
    text = write_program(program)
    found = read_program(text)
    assert found == program
    assert list(found.rows) == list(program.rows)
    assert write_program(found) == text


@pytest.mark.parametrize("name", names())
def test_schedules_read_back_and_prove_the_same(name: str) -> None:
    program = program_of(make(name, 4, 8))
    found = read_program(write_program(program))
    assert found == program
    assert found.prove() == program.prove()


def test_the_text_is_short_and_plain() -> None:
    text = write_program(program_of(make("one_f_one_b", 2, 3)))
    lines = text.splitlines()
    assert lines[:5] == [
        "program 1", "name one_f_one_b", "path 0..2: 0 1", "demand w0 = 1/3(w0,0,0..2)",
        "demand w1 = 1/3(w1,1,0..2)",
    ]  # fmt: skip
    assert "given in.0@0 = (x,0,0)" in lines and "given dw0#0@0 = nothing" in lines
    at = lines.index("rank 0, lane compute")
    assert lines[at + 1 : at + 4] == [
        "  F(0,0) in.0 w0 -> x0.0 c0.0#0",
        "  F(0,1) in.1 w0 -> x0.1 c0.1#0",
        "  B(0,0) c0.0#0 w0 dw0#0 g1.0 -> dw0#1",
    ]
    assert "  recv(0,0) -> g1.0 | group 1,0" in lines


HEAD = "program 1\n"
LANE = "rank 0, lane compute\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: '' does not begin a Program; write 'program 1' first"),
        ("program 2\n", "line 1: 'program 2' does not begin a Program"),
        (HEAD + "size x: a@0", "line 2: 'x' is not a number; write one, as in 3, 0.5 or 1/3"),
        (HEAD + "size 1/0: a@0", "line 2: '1/0' is not a number"),
        (HEAD + "size 1e999: a@0", "line 2: '1e999' is not a number"),
        (HEAD + "size -1: a@0", "line 2: size -1 is negative; write 0 or more"),
        (HEAD + "size 1 a@0", "line 2: '1 a@0' cannot be read; write as in 'size 0.5 host: h0.0@0 h0.1@0'"),
        (HEAD + "size 1: a@0\n\nsize 2: a@0", "line 4: size a@0 stands in this file already; remove one of them"),
        (HEAD + "given a@0 = (x,0\n", "line 2: '(x,0' is not a term of a sum; write factor and atom"),
        (HEAD + "given a@0 = x", "line 2: 'x' is not a term of a sum"),
        (HEAD + "given a@0 = 0.5(x)", "line 2: '0.5(x)' has the factor 0.5; write it exactly, as in 1/8"),
        (HEAD + "given a@0 = (x,5..2)", "has a range of 0 numbers; write 1 to 1000000, the lower one first"),
        (HEAD + "given a@0 = (x,0..999999999)", "line 2: '(x,0..999999999)' has a range of 1000000000 numbers"),
        (HEAD + "given a@0 = (0..2,x)", "has the range 0..2; only the last number of an atom may be one"),
        (HEAD + "given a@0 = (x) part 2/2", "line 2: part 2/2 does not exist; count the parts from 0"),
        (HEAD + "path 1: 0 1", "line 2: path 1 stands where that of sample 0 belongs; put it there"),
        (HEAD + "path 0..x: 0 1", "line 2: '0..x: 0 1' cannot be read; write as in 'path 0..7: 0 1 2 3'"),
        (HEAD + "rank x, lane compute", "line 2: 'x, lane compute' cannot be read; write as in 'rank 0, lane compute'"),
        (HEAD + "path 0: 1000000", "line 2: stage 1000000 is above 999999, the last that a Program may have"),
        (HEAD + "rank 100000, lane compute", "line 2: rank 100000 is above 99999, the last that a Program may have"),
        (HEAD + LANE + LANE, "line 3: rank 0, lane compute stands in this file already; put all of its tasks there"),
        (HEAD + "  F(0,0) a -> b", "line 2: the task 'F(0,0) a -> b' has no lane; write a line as in"),
        (HEAD + LANE + "F(0,0) a -> b", "line 3: 'F(0,0) a -> b' begins with none of name, accepts, path"),
        (HEAD + LANE + "  F(0, 0) a -> b", "line 3: '(0,' is not closed; end it with ), and leave out spaces"),
        (HEAD + LANE + "  F(0 a -> b", "line 3: '(0' is not closed"),
        (HEAD + LANE + "  F(0)1) a", "line 3: '(0)1)' goes on behind its last parenthesis; remove '1)'"),
        (HEAD + LANE + "  F(0(1)) a", "line 3: '(0(1))' lacks a comma before '('"),
        (HEAD + LANE + "  F(,1) a", "line 3: '(,1)' lacks something before part 2"),
        (HEAD + LANE + "  F(0..3) a", "line 3: '(0..3)' has the range 0..3"),
        (HEAD + LANE + "  F(1x) a", "line 3: '1x' is not a number"),
        (HEAD + LANE + "  F(" + "(" * 3000, "has more than 20 tuples inside one another; use fewer"),
        (HEAD + LANE + '  F("\\q") a', 'line 3: "\\q" is not a text in quotes; write it as in JSON'),
        (HEAD + LANE + "  -> b", "line 3: '->' is not a kind of task; write a task as in"),
        (
            HEAD + LANE + "  F a | team 1",
            "line 3: 'team 1' is neither a group nor work; write as in 'group 0,1 work 4096'",
        ),
        (HEAD + LANE + "  F a | group", "line 3: 'group ' is neither a group nor work"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "step.txt"
    file.write_text(text)
    with pytest.raises(ProgramError) as caught:
        load_program(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: line ") and expected in message and "\n" not in message


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be read \(No such file"):
        load_program(tmp_path / "none.txt")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="it is not UTF-8 text"):
        load_program(tmp_path / "bytes.txt")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            Program({Lane(0, "c"): (Task("F", 0, "c", ("x",)),)}),
            "the value 'x' (rank 0, lane c) has no rank; name it x@0",
        ),
        (Program({Lane(0, "c"): (Task("F", 0, "c", ("a b@0",)),)}), "the name 'a b' cannot be written"),
        (Program({Lane(0, "c"): (Task("F", 0, "c", arg={}),)}), "{} cannot be written as an argument"),
        (Program({Lane(0, "c"): (Task("F G", 0, "c"),)}), "the kind 'F G' (rank 0, lane c) cannot be written"),
        (Program({Lane(0, "c"): (Task("F", 1, "c"),)}), "is of rank 1, lane c; put it into that lane, or change it"),
        (Program({Lane(-1, "c"): ()}), "rank -1, lane c: a file has ranks 0 to 99999; number them from 0"),
        (Program({Lane(0, " c"): ()}), "the name of a lane ' c' cannot be written"),
        (Program({}, {"a@0": Value("b@0", 1.0)}), "the size of a@0 is that of b@0; give both one name"),
        (Program({}, {"a@0": Value("a@0", float("inf"))}), "inf cannot be written; give a finite number"),
        (Program({}, name="a\nb"), "the name 'a\\nb' cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused(program: Program, expected: str) -> None:
    with pytest.raises(ProgramError) as caught:
        write_program(program)
    assert expected in str(caught.value)


def tampered(text: str, chance: Random) -> str:
    """The text with one line dropped, doubled or moved, or one word replaced by another of the file."""
    lines = text.splitlines()
    one, two = chance.randrange(1, len(lines)), chance.randrange(1, len(lines))
    change = chance.randrange(4)
    if change == 0:
        del lines[one]
    elif change == 1:
        lines.insert(two, lines[one])
    elif change == 2:
        lines.insert(two, lines.pop(one))
    else:
        here, there = lines[one].split(" "), lines[two].split(" ")
        here[chance.randrange(len(here))] = chance.choice(there)
        lines[one] = " ".join(here)
    return "\n".join(lines)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["one_f_one_b", "dualpipe", "vocab_2", "po_f", "pipedream"])
def test_a_tampered_file_is_proven_or_refused_in_one_line(name: str) -> None:
    chance, refused = Random(7), 0
    text = write_program(program_of(make(name, 4, 8)))
    for _ in range(examples(1600)):
        try:
            read_program(tampered(text, chance)).prove()
        except ProgramError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) > 20
    assert refused > 0


@pytest.mark.parametrize("group", ["", " | group 0", " | group 0,1,2"])
def test_a_message_has_two_ends(group: str) -> None:
    program = read_program(HEAD + f"given a@0 = (x)\n{LANE}  send a{group}\n  recv -> b{group}\n")
    with pytest.raises(ProgramError, match=r"is a message of the group \[.*\]; give its sender and its receiver"):
        program.prove()


def test_fractions_and_sums_are_exact() -> None:
    content = Content({("w", "w0", 0): Fraction(1, 3)}, (1, 2))
    found = read_program(HEAD + "given w0@0 = 1/6(w,w0,0) + 1/6(w,w0,0) part 1/2\n")
    assert found.given == {"w0@0": content}
