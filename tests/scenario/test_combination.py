"""What cannot work together is said in one line before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import poise as ps
from poise.catalogue import device, model
from poise.cli import main
from poise.core.action import ALL, NONE, Batch, Entry
from poise.core.errors import ScenarioError
from poise.core.spec import Cluster, Engine, Lane, Pool, Role
from poise.core.view import LaneView
from poise.cost import Roofline
from poise.policies.find import build, names
from poise.scenario.combination import check_work
from poise.scenario.simulate import simulate
from poise.workload import poisson

POOL = Pool(model("llama-3.1-8b"), device("H100"), name="here")
BOTH = Engine(lanes=(Lane("prompts", decode=False, share=0.5), Lane("outputs", prefill=False, share=0.5)))
ROLES: tuple[Role, ...] = ("mixed", "prefill", "decode")


class PromptsAlone:
    """Never decodes."""

    def batch(self, lane: LaneView) -> Batch:
        some = [*lane.prefilling, *lane.queue()]
        return Batch(tuple(Entry(each.id, each.need - each.computed) for each in some), NONE)


class OutputsAlone:
    """Admits whose KV comes from elsewhere, and computes no prompt."""

    def batch(self, lane: LaneView) -> Batch:
        return Batch(tuple(Entry(each.id, 0) for each in lane.queue() if each.source >= 0), ALL)


def check(pool: Pool, batcher: Any) -> None:
    check_work(pool, Roofline().build(pool), 1000, batcher)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", names("batcher"))
def test_every_batcher_serves_every_role(name: str, role: Role) -> None:
    batcher = build("batcher", name)
    check(replace(POOL, role=role, engine=BOTH if getattr(batcher, "lanes", False) else POOL.engine), batcher)


@pytest.mark.parametrize(("kind", "able"), [(PromptsAlone, "prefill"), (OutputsAlone, None)])
def test_a_batcher_that_leaves_work_undone(kind: type, able: Role | None) -> None:
    for role in ROLES:
        pool = replace(POOL, role=role)
        if role == able:
            check(pool, kind())
        elif role != "decode" or kind is PromptsAlone:
            with pytest.raises(ScenarioError, match=rf"{kind.__name__} leaves a request undone in pool 'here', whose"):
                check(pool, kind())


def test_the_warning_comes_before_anything_runs() -> None:
    pools = (replace(POOL, role="prefill"), replace(POOL, role="decode", name="there"))
    with pytest.raises(ScenarioError, match=r"PromptsAlone leaves a request undone in pool 'there'.*another role"):
        simulate(
            Cluster(pools),
            poisson(1, requests=3, prompt_tokens=9, output_tokens=9),
            ps.Policies(batcher=PromptsAlone()),
        )


FILE = """\
model: llama-3.1-8b
cluster: {pools: [{device: H100}]}
workload: {WORKLOAD}
policies: {cache: {fixed_ttl: {ttl_s: 30}}}
"""
SHORT = "poisson: {rate: 10, requests: 50, prompt_tokens: 9, output_tokens: 2}"


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.parametrize(
    ("workload", "more", "expected"),
    [
        (SHORT, "", "ttl_s 30 of FixedTtl is longer than the run, which takes requests for 5.62406 s"),
        (SHORT, "run: {until_s: 20}", "which takes requests for 20 s: nothing would expire; give less"),
        (SHORT.replace("10,", "1,"), "", ""),
        (
            SHORT.replace("10,", "1,"),
            "engine: {prefix_caching: false}",
            "FixedTtl keeps KV, and engine.prefix_caching is",
        ),
        ("closed: {concurrency: 2, requests: 9, prompt_tokens: 9, output_tokens: 2}", "", ""),
    ],
)
def test_kv_is_kept_where_it_is_found_and_for_no_longer_than_the_run(
    command: str, workload: str, more: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(FILE.replace("WORKLOAD", workload) + more)
    options = ["--seeds", "2"] if command == "compare" else []
    assert main([command, str(file), "--quiet", *options]) == (2 if expected else 0)
    error = capsys.readouterr().err
    assert expected in error
    assert not expected or error.count("\n") == 1


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_prefixes_that_no_request_could_use_again(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A term may forbid the prefix cache, which is on by default; a pool's own engine may be what turns it off."""
    file = tmp_path / "scenario.yaml"
    text = FILE.replace("WORKLOAD", SHORT).replace("policies: {cache: {fixed_ttl: {ttl_s: 30}}}\n", "")
    file.write_text(f"{text}cost: {{terms: dllm_serve}}\n")
    assert main([command, str(file), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "engine.prefix_caching is true in pool 'meta-llama/Llama-3.1-8B'; under the term DllmServe" in error
    assert "give prefix_caching: false" in error and error.count("\n") == 1
    file.write_text(file.read_text().replace("{device: H100}", "{device: H100, engine: {prefix_caching: false}}"))
    assert main(["simulate", str(file), "--quiet"]) == 0, capsys.readouterr().err


def test_heads_are_not_cut_in_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless a term says what each device does."""
    file = tmp_path / "scenario.yaml"
    text = FILE.replace("WORKLOAD", SHORT).replace("policies: {cache: {fixed_ttl: {ttl_s: 30}}}\n", "")
    file.write_text(text.replace("{device: H100}", "{device: H100, tensor: 3}"))
    assert main(["simulate", str(file), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "tensor is 3 in pool 'meta-llama/Llama-3.1-8B', which does not divide the 32 attention heads" in error
    assert error.count("\n") == 1
    file.write_text(f"{file.read_text()}cost: {{terms: {{hybrid_partition: {{tensors: 2-1}}}}}}\n")
    assert main(["simulate", str(file), "--quiet"]) == 0, capsys.readouterr().err
