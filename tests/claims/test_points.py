"""Tables of closed forms: what is called, with which arguments, and what formulas and curves take of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from poise.claims.bench import Bench
from poise.claims.claim import Claim, Point
from poise.claims.experiments.points import arguments, function, made
from poise.claims.experiments.runs import measure
from poise.claims.find import compared_file, file_of, files
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Device, Pool
from poise.cost.intensity import decode_intensity, decode_s
from poise.cost.term import Term
from poise.cost.terms.nanoflow import NanoFlow
from poise.pipeline import Costs

TEXT = """
system = "Mine"
paper = {year = 2024, trust = "text", group = "caches"}
slot = "cost"
policies = ["intensity"]
published = "shorter"
conditions = "one device"
here = "the same"

[points.decode]
call = "poise.cost.intensity.decode_s"
across = "context"
vary = "context"
at = [1000, 2000]
set.device = {like = "B200", memory_bw = 4e12}
lines.GQA.model = "llama-3.1-405b"
lines.MHA.model = {like = "llama-3.1-405b", kv_heads = 128}
curves = {"Seconds" = "value", "Times one at 1000" = "value / value[1000]"}
[points.intensity]
call = "poise.cost.intensity.decode_intensity"
set.model = "llama-3.1-405b"
paper = [15]
[let]
more = "decode.value['MHA'] / decode.value['GQA']"

[headline.more]
asks = "more"
paper = "16"
test = {value = "more", least = 15.9, most = 16.1}
[beside.grows]
asks = "grows"
paper = "grows"
test = {value = "rises(decode.value['GQA'])", shows = "decode.value"}
[notes]
off = "How far it is off"
[shown]
off = "intensity.value / intensity.paper - 1"
"""


def claim(*changes: tuple[str, str]) -> Claim:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Claim.model_validate(tomllib.loads(text))


def measured(*changes: tuple[str, str]) -> Any:
    about = claim(*changes)
    return measure(about, Bench(about, quick=True))


def test_values_are_those_of_the_function() -> None:
    found = measured()
    answers = {each.key: each for each in found.answers}
    assert answers["more"].values == pytest.approx((16.0, 16.0))
    assert answers["more"].text == "16 at 1,000, 16 at 2,000"
    assert answers["grows"].values is True
    assert answers["grows"].text.startswith("GQA: ")
    assert answers["off"].values == pytest.approx((decode_intensity(made(Model, "llama-3.1-405b")) / 15 - 1,))
    seconds, times = found.curves
    device = made(Device, {"like": "B200", "memory_bw": 4e12})
    assert seconds.lines["GQA"] == [
        Point(at, decode_s(made(Model, "llama-3.1-405b"), device, at)) for at in (1000, 2000)
    ]
    assert [seconds.kind, times.kind] == ["seconds", "number"]
    assert [each.value for each in times.lines["MHA"]] == [1, 2]


def test_a_curve_has_what_is_published_beside_it() -> None:
    (curve,) = measured(('curves = {"Seconds" = "value", "Times one at 1000" = "value / value[1000]"}',
                         'curves = {"Seconds" = "value"}\npaper = [1e-6, 2e-6]')).curves  # fmt: skip
    assert curve.lines["published"] == [Point(1000, 1e-6), Point(2000, 2e-6)]


def test_a_function_that_draws_has_every_seed_and_a_quick_run_a_tenth() -> None:
    """`seed` is given by the claim's seeds; `shorter` names what a quick run has less of."""
    changes = (
        ('call = "poise.cost.intensity.decode_intensity"\nset.model = "llama-3.1-405b"\npaper = [15]',
         'call = "poise.cost.pipe_infer.drawn"\nshorter = ["tokens"]\n'
         'set = {tokens = 20_000, stream = {stages = 2, stage_s = 1, acceptance = 0.5}}'),
        ('here = "the same"', 'here = "the same"\nseeds = 3'),
        ("intensity.value / intensity.paper - 1", "over(intensity.value - 1)"),
    )  # fmt: skip
    (found,) = next(each for each in measured(*changes).answers if each.key == "off").values
    assert 0 < abs(found.value) < 0.1  # two seeds of 2,000 tokens differ from the closed form, and not by much
    assert found.low < found.value < found.high


def test_arguments_are_made_as_the_function_has_them() -> None:
    about = claim().points["decode"]
    given = arguments(about, "MHA", 1000.0)
    assert given["context"] == 1000
    assert isinstance(given["context"], int)
    assert (given["device"].memory_bw, given["model"].kv_heads) == (4e12, 128)
    pool = made(Pool, {"model": "llama-3.1-8b", "device": "A100", "tensor": 2, "engine": {"token_budget": 512}})
    assert (pool.model, pool.tensor, pool.engine.token_budget) == (made(Model, "llama-3.1-8b"), 2, 512)
    assert made(Term, {"nanoflow": {"overlap": 1}}) == NanoFlow(1)


def of_the_page(head: str, holds: str) -> Claim:
    """The claim of these first lines and of the example of docs/claims.md that holds a text."""
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    (example,) = (each for each in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if holds in each)
    return Claim.model_validate(tomllib.loads(head + example))


def test_the_example_of_the_page_is_one() -> None:
    about = of_the_page(TEXT[: TEXT.index("[points.decode]")], "[points.attention]")
    found = measure(about, Bench(about, quick=True))
    assert [each.values for each in found.answers] == [pytest.approx((2.667 / 2.67, 1, 14.222 / 14.2), rel=1e-3)]
    assert found.answers[0].text == "0.9988 at 2, 1 at 4, 1.002 at 8"
    assert {*found.curves[0].lines} == {"here", "published"}


SCHEDULES = """
system = "Interleaved"
paper = {year = 2021, trust = "code", group = "pipeline schedules"}
slot = "schedule"
policies = ["interleaved"]
others = ["one_f_one_b"]
published = "a bubble v times smaller"
conditions = "any"
here = "8 ranks"
"""


def test_numbers_of_a_cost_stay_as_they_are() -> None:
    assert made(Costs, {"f": [1, 1.25], "comm": 0.1}) == Costs.of([1, 1.25], comm=0.1)


def test_schedules_and_steps_are_points() -> None:
    """A schedule by name, costs from a mapping, a model by its shape, a layout from its fields."""
    about = of_the_page(SCHEDULES, "[points.bubble]")
    found = {each.key: each.values for each in measure(about, Bench(about, quick=True)).answers}
    assert found["bubble"] == pytest.approx((1, 1))
    assert measure(about, Bench(about)).answers[1].values == found["step"]  # a quick run of what draws nothing is whole
    assert compared_file("one_f_one_b", "schedule") == file_of("one_f_one_b", "schedule")
    assert compared_file("chunked", "cost").parent.name == "batch"


def test_the_file_of_the_function_is_in_the_digest() -> None:
    assert {"cloudmatrix.py", "cloudmatrix_steps.py", "expert_balance.py"} == {
        each.name for each in files("cloudmatrix384") if each.parent.name == "cost"
    }


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ("poise.cost.intensity.decode", "no function of the package"),
        ("poise.cost.nothing.decode_s", "no function of the package"),
        ("math.sqrt", "no function of the package"),
        ("decode_s", "no function of the package"),
    ],
)
def test_a_call_that_is_none_is_named(call: str, rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        function(claim(("poise.cost.intensity.decode_s", call)).points["decode"])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("set.device", "set.devise"), "'devise' is no argument of poise.cost.intensity.decode_s"),
        (("[let]", "[points.ridge]\ncall = 'poise.cost.intensity.ridge'\nset.device = 'B201'\n[let]"), "B201"),
        (("intensity.value / intensity.paper", "intensity.size"), "size is no figure of float"),
        (("intensity.value / intensity.paper", "decode.paper"), "has no published values"),
        (("decode.value['MHA']", "decode.value['MLA']"), "'MLA' is no label; give one of GQA, MHA"),
        (('value / value[1000]"', 'value[3]"'), "3 is no place of the axis"),
        (('value / value[1000]"', 'rises(value)"'), "is no figure at each place"),
    ],
)
def test_a_mistake_is_named(change: tuple[str, str], rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        measured(change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("paper = [15]", "paper = [15, 16]"), "2 published values for 1 places"),
        (('off = "intensity', 'of = "intensity'), "formula for no note"),
        (('vary = "context"\n', ""), "changes nothing"),
    ],
)
def test_what_is_amiss_in_the_file_is_named(change: tuple[str, str], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        claim(change)
