"""Price files in every kind say the same, mistakes in them are named, and shipped prices stay on one basis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import bases
from poise.core.errors import UserError
from poise.plan.prices import Price, prices_of, read_prices

SAME = {
    "prices.yaml": "H100: 2.5\nl40s: {price: 1, spot: 0.4, reclaims_per_hour: 0.02, limit: 16}\n4090: {price: 0.7}\n",
    "prices.json": '{"H100": 2.5, "l40s": {"price": 1, "spot": 0.4, "reclaims_per_hour": 0.02, "limit": 16}, '
    '"4090": {"price": 0.7, "spot": null}}',
    "prices.csv": "device, price, limit, spot, reclaims_per_hour\n\nH100, 2.5,,,\nl40s,1,16,0.4,0.02\n4090,0.7,,,\n",
    "prices.jsonl": '{"device": "H100", "price": 2.5}\n\n'
    '{"device": "l40s", "price": 1, "spot": 0.4, "reclaims_per_hour": 0.02, "limit": 16}\n'
    '{"price": 0.7, "device": "4090", "limit": null}\n',
}


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SAME)
def test_every_kind_of_file_says_the_same(tmp_path: Path, name: str) -> None:
    assert read_prices(_file(tmp_path, name, SAME[name])) == {
        "H100-SXM-80GB": Price(2.5),
        "L40S": Price(1.0, 0.4, 0.02, 16),
        "RTX-4090": Price(0.7),
    }


price = st.floats(0, 1e6)
offers = st.builds(Price, price, price, price, st.none() | st.integers(0, 10**6)) | st.builds(Price, price)


@given(offers)
def test_a_price_survives_every_kind_of_file(tmp_path_factory: pytest.TempPathFactory, offer: Price) -> None:
    terms: dict[str, object] = {"price": offer.per_hour, "limit": offer.limit}
    if offer.spot is not None:
        terms |= {"spot": offer.spot, "reclaims_per_hour": offer.reclaims_per_hour}
    cells = {name: value for name, value in terms.items() if value is not None}
    texts = {
        "p.json": json.dumps({"H100": terms}),
        "p.jsonl": json.dumps({"device": "H100", **terms}),
        "p.csv": f"device,{','.join(cells)}\nH100,{','.join(map(str, cells.values()))}",
    }
    folder = tmp_path_factory.mktemp("prices")
    for name, text in texts.items():
        assert read_prices(_file(folder, name, text)) == {"H100-SXM-80GB": offer}


def test_the_same_price_twice_is_one_price(tmp_path: Path) -> None:
    assert read_prices(_file(tmp_path, "p.yaml", "H100: 2\nh100_sxm: {price: 2.0}\n")) == {"H100-SXM-80GB": Price(2.0)}


MISTAKES = [
    ("p.yaml", "H100: 2\nL4: 1\nh100-sxm: 3\n", ":3: h100-sxm: is H100-SXM-80GB, which has another price above"),
    ("p.yaml", "H100: 2\nH100: 2\n", ":2: H100: stands twice"),
    ("p.yaml", "L4: 1\nH300: 2\n", ":2: device 'H300' is not built in; nearest are "),
    ("p.yaml", "H100: -2\n", ":1: H100: price is -2; it must be a number from 0"),
    ("p.yaml", "H100: .nan\n", ":1: H100: price is nan; it must be"),
    ("p.yaml", "H100: .inf\n", ":1: H100: price is inf; it must be"),
    ("p.yaml", f"H100: 1{400 * '0'}\n", "it must be a number from 0 to 1,000,000"),
    ("p.yaml", "H100: '2.5'\n", ":1: H100: price is '2.5'; it must be a number"),
    ("p.yaml", "H100: true\n", ":1: H100: price is True; it must be"),
    ("p.yaml", "H100:\n", ":1: H100: has no price; give"),
    ("p.yaml", "H100: {spot: 1, reclaims_per_hour: 0}\n", ":1: H100: has no price; give"),
    ("p.yaml", "H100: {price: 2, cost: 1}\n", ":1: H100: there is no field 'cost'; give price, spot"),
    ("p.yaml", "H100: {price: 2, spot: 1}\n", ":1: H100: spot stands without reclaims_per_hour; give both"),
    ("p.yaml", "H100: {price: 2, reclaims_per_hour: 1}\n", ":1: H100: reclaims_per_hour stands without spot; give"),
    ("p.yaml", "H100: {price: 2, limit: 1.5}\n", ":1: H100: limit is 1.5; it must be a whole number"),
    ("p.yaml", "# nothing\n", ": is empty; give a price for each device, as in `H100: 2.5`"),
    ("p.yaml", "{}\n", ": is empty; give a price"),
    ("p.yaml", "- H100\n", ":1: is a list; must be a mapping, as in `H100: 2.5`"),
    ("p.yaml", "H100: [2\n", "is not valid YAML"),
    ("p.csv", "device,price\nH100,2\nH100,3\n", ":3: H100: is H100-SXM-80GB, which has another price above; keep one"),
    ("p.csv", "device,price\nH100,cheap\n", ":2: H100: price is 'cheap'; it must be a number"),
    ("p.csv", "device,price\nH100,nan\n", ":2: H100: price is nan; it must be a number"),
    ("p.csv", "device,price\nH100,\n", ":2: H100: has no price"),
    ("p.csv", "device,price\nH100,2,3\n", ":2: has 3 cells and the header 2; give as many"),
    ("p.csv", "device,price\nH100,2\n\n,3\n", ":4: device '' is not built in"),
    ("p.csv", "gpu,price\nH100,2\n", ":1: the columns are gpu, price; they must be device, price and"),
    ("p.csv", "device,price,price\nH100,2,3\n", "price, price; they must be device, price and"),
    ("p.csv", 'device,price\n"H100,2\n', "is not valid CSV"),
    ("p.csv", "", ": is empty; give a price"),
    ("p.csv", "device,price\n", ": is empty; give a price"),
    ("p.jsonl", '{"device": "H100", "price": NaN}\n', ":1: H100: price is nan; it must be"),
    ("p.jsonl", '\n{"device": "H100", "price": 2\n', ":2: is not valid JSON"),
    ("p.jsonl", f'{{"device": "H100", "price": {5000 * "9"}}}\n', ":1: is not valid JSON"),
    ("p.jsonl", '{"gpu": "H100"}\n', ":1: names no device; write an object"),
    ("p.jsonl", "2.5\n", ":1: names no device; write an object"),
    ("p.jsonl", "\n", ": is empty; give a price"),
    ("p.txt", "H100: 2\n", ": is of no kind that is read; name it .yaml"),
]


@pytest.mark.parametrize(("name", "text", "expected"), MISTAKES)
def test_a_mistake_is_one_line_that_says_where_and_what(tmp_path: Path, name: str, text: str, expected: str) -> None:
    path = _file(tmp_path, name, text)
    with pytest.raises(UserError) as caught:
        read_prices(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:") and expected in message and "\n" not in message


@pytest.mark.parametrize("suffix", ["yaml", "json", "csv", "jsonl"])
def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p.{suffix}"
    with pytest.raises(UserError, match="no such file; give the path of a price file"):
        read_prices(path)
    path.write_bytes(b"H100: \xff")
    with pytest.raises(UserError, match="byte 6 is not UTF-8"):
        read_prices(path)


def test_shipped_prices_are_on_the_stated_basis() -> None:
    prices, basis = prices_of(["H100", "l40s", "h100_sxm", "A100-80GB"], None)
    assert list(prices) == ["H100-SXM-80GB", "L40S", "A100-SXM-80GB"]
    assert prices == {name: Price(bases(name)[basis]) for name in prices}


def test_a_file_prices_what_is_requested_and_gives_its_name(tmp_path: Path) -> None:
    file = _file(tmp_path, "prices.yaml", SAME["prices.yaml"])
    assert prices_of(["H100"], file) == ({"H100-SXM-80GB": Price(2.5)}, "prices.yaml")


def test_a_file_is_not_filled_up_with_shipped_prices(tmp_path: Path) -> None:
    file = _file(tmp_path, "prices.yaml", "H100: 2.5\n")
    with pytest.raises(UserError, match=r"prices\.yaml: has no price for L40S, T4; add each, as in `L40S: 2\.5`"):
        prices_of(["H100", "L40S", "T4"], file)
