"""Where engines are: lists, files under watch, DNS names; and what changed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.live.discovery.address import Engine, engine
from poise.live.discovery.engines import Diff, EngineFile, EngineName, Engines, diff, named, parse
from poise.live.discovery.watch import addresses, watch_file, watch_name

A, B, C = (engine(f"http://{name}:8000", "test") for name in ("a", "b", "c"))


def _of(*engines: Engine) -> Engines:
    return {each.name: each for each in engines}


SETS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([A, B, C]))


@given(SETS, SETS)
def test_a_diff_leads_from_one_to_the_other(before: Engines, after: Engines) -> None:
    done = diff(before, after)
    assert sorted(done.added) == sorted(after[name] for name in after.keys() - before.keys())
    assert sorted(done.removed) == sorted(before[name] for name in before.keys() - after.keys())
    assert sorted(done.changed) == sorted(
        after[name] for name in before.keys() & after.keys() if before[name] != after[name]
    )
    assert diff(after, after) == Diff()


@pytest.mark.parametrize(
    "text",
    [
        "http://a:8000\n\n# the other\n  http://b:8000\n",
        "- url: http://a:8000\n- url: http://b:8000\n",
        "engines:\n- url: http://a:8000\n- url: http://b:8000\n",
        '[{"url": "http://a:8000"}, {"url": "http://b:8000"}]',
        '[{"targets": ["a:8000", "http://b:8000"]}]',
    ],
)
def test_every_form_of_a_file(text: str) -> None:
    assert parse(text, "engines") == _of(A, B)


def test_names_and_labels() -> None:
    text = "- {name: big, url: 'http://a:8000', labels: {zone: x, gpus: 8}}\n- targets: ['b:8000']\n  labels: {zone: y}"
    big, other = parse(text, "engines").values()
    assert big == A._replace(name="big", labels=(("gpus", "8"), ("zone", "x")))
    assert other == B._replace(labels=(("zone", "y"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1: holds no list of engines"),
        ("# nothing\n", "f:1: holds no list of engines"),
        ("[]", "f:1: holds no list of engines"),
        ("engines: []\n", "f:1: holds no list of engines"),
        ("tenants: []\n", "f:1: is a mapping; write a list, or a mapping with the one section 'engines'"),
        ("- url: [\n", "is not valid YAML"),
        ("- a\n", "f:1: is not a mapping"),
        ("- !!x {url: 'http://a:8000'}\n", "f:1: has a tag, which means nothing here; remove it"),
        ("- " * 4000 + "a\n", "f: lists and mappings are nested too deeply to read; write them flatter"),
        ("http://a:8000\nhttp//b:8000\n", "f:1: holds no list"),
        ("http://a:8000\nhttp://b:x\n", "f:2: 'http://b:x' is not a URL"),
        ("http://a:8000\nhttp://a:8000\n", "f:2: the name 'a:8000' is there twice"),
        ("- {url: 'http://a:8000'}\n- {url: 'http://a:8000', name: x}\n", "f:2: 'x' is where 'a:8000' is"),
        ("- {url: 'http://a:8000', nme: x}\n", "f:1: unknown field: 'nme'; the fields are name, url, labels"),
        ("\n- {url: 3}\n", "f:2: url is not a text: 3"),
        ("- {targets: a}\n", "f:1: targets is not a list of texts"),
        ("- {url: 'http://a:8000', labels: x}\n", "f:1: labels is 'x'; write a mapping"),
        ("- {}\n", "f:1: '' is not an http or https URL"),
        ("- {targets: ['169.254.169.254:80']}\n", "it is link-local"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(text, "f")
    assert message in str(raised.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse(text, "f")
    except UserError as error:
        assert str(error).startswith("f")


def test_a_list_on_the_command_line() -> None:
    assert named([("--engine", A), ("--engine", B)]) == _of(A, B)
    with pytest.raises(UserError, match="--engine: the name 'a:8000' is there twice"):
        named([("--engine", A), ("--engine", A)])


def _write(file: Path, text: str, stamp: int) -> None:
    file.write_text(text)
    os.utime(file, ns=(stamp, stamp))


def test_a_file_is_followed_once_it_has_settled(tmp_path: Path) -> None:
    file = tmp_path / "engines"
    _write(file, "http://a:8000\n", 1)
    watch = EngineFile(file)
    assert watch.engines == _of(A) and watch.look() == Diff()
    _write(file, "http://a:8000\nhttp://b:80", 2)
    assert watch.look() == Diff()  # being written, perhaps
    _write(file, "http://a:8000\nhttp://b:8000\n", 3)
    assert watch.look() == Diff()
    assert watch.look() == Diff(added=(B,)) and watch.engines == _of(A, B)
    assert watch.look() == Diff() and watch.problem == ""


def test_a_broken_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "engines"
    _write(file, "http://a:8000\n", 1)
    watch = EngineFile(file)
    for stamp, text in enumerate(["", "- url: [", "http://a:x\n"], 2):
        _write(file, text, stamp)
        assert [watch.look(), watch.look()] == [Diff(), Diff()]
        assert watch.problem.startswith(str(file)) and watch.problem.endswith(
            "(the engines of the last good file stay)"
        )
    file.unlink()
    assert [watch.look(), watch.look()] == [Diff(), Diff()] and "no such file" in watch.problem
    assert watch.engines == _of(A)
    _write(file, "http://b:8000\n", 9)
    assert [watch.look(), watch.look()] == [Diff(), Diff(added=(B,), removed=(A,))]
    assert watch.problem == ""


def test_a_file_that_is_replaced_is_seen_though_nothing_else_differs(tmp_path: Path) -> None:
    file, other = tmp_path / "engines", tmp_path / "new"
    _write(file, "http://a:8000\n", 1)
    watch = EngineFile(file)
    _write(other, "http://b:8000\n", 1)
    other.replace(file)
    assert [watch.look(), watch.look()] == [Diff(), Diff(added=(B,), removed=(A,))]


def test_the_first_file_must_be_good(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        EngineFile(tmp_path / "engines")


def test_every_address_of_a_name_is_an_engine() -> None:
    name = EngineName(engine("https://engines.svc:8443/llm", "test"), grace=10 * SECOND, at=0)
    first = name.resolved(["10.0.0.2", "10.0.0.1", "10.0.0.1", "169.254.169.254"], "", 1)
    assert [each.name for each in first.added] == ["10.0.0.1:8443", "10.0.0.2:8443"]
    assert first.added[0] == Engine("10.0.0.1:8443", "10.0.0.1", 8443, True, "/llm", "engines.svc")
    second = name.resolved(["10.0.0.2", "fd00::1"], "", 2)
    assert [each.name for each in second.added] == ["[fd00::1]:8443"]
    assert [each.name for each in second.removed] == ["10.0.0.1:8443"]


def test_a_name_that_is_gone_leaves_its_engines_for_a_while() -> None:
    name = EngineName(engine("http://engines.svc:80", "test"), grace=10 * SECOND, at=0)
    name.resolved(["10.0.0.1"], "", 5 * SECOND)
    assert name.resolved([], "engines.svc has no address: unknown", 14 * SECOND) == Diff()
    assert name.problem == "engines.svc has no address: unknown" and len(name.engines) == 1
    assert len(name.resolved([], "", 15 * SECOND).removed) == 1
    assert len(name.resolved(["10.0.0.1"], "", 16 * SECOND).added) == 1 and name.problem == ""


def test_a_file_is_watched(tmp_path: Path) -> None:
    async def main() -> Diff:
        file = tmp_path / "engines"
        _write(file, "http://a:8000\n", 1)
        reported: asyncio.Future[Diff] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(watch_file(EngineFile(file), reported.set_result, period_s=0.001))
        _write(file, "http://b:8000\n", 2)
        async with asyncio.timeout(20):
            done = await reported
        task.cancel()
        return done

    assert asyncio.run(main()) == Diff(added=(B,), removed=(A,))


def test_a_name_is_resolved_again_and_again() -> None:
    answers: list[list[str]] = [[], ["10.0.0.1"], [], ["10.0.0.1", "10.0.0.2"]]

    async def resolve(host: str, port: int) -> list[str]:
        assert (host, port) == ("engines.svc", 80)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if not found:
            raise OSError(-2, "Name or service not known")
        return found

    async def main() -> list[Diff]:
        name = EngineName(engine("http://engines.svc", "test"), grace=100 * SECOND, at=0)
        seen: list[Diff] = []
        two = asyncio.Event()

        def hear(change: Diff) -> None:
            seen.append(change)
            if len(seen) == 2:
                two.set()

        task = asyncio.create_task(watch_name(name, "engines.svc", 80, hear, 0.001, resolve))
        async with asyncio.timeout(20):
            await two.wait()
        task.cancel()
        return seen

    first, second = asyncio.run(main())
    assert [each.host for each in first.added] == ["10.0.0.1"] and first.removed == ()
    assert [each.host for each in second.added] == ["10.0.0.2"] and second.removed == ()


def test_the_systems_resolver_knows_this_machine() -> None:
    assert "127.0.0.1" in asyncio.run(addresses("127.0.0.1", 80))
