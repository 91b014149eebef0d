"""Terms beside one another: what excludes what, in which order, and that no term of a cost that is let through goes
unheard.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, permutations

import pytest

from poise.catalogue import device, model
from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.compatibility import check_terms
from poise.cost.term import Termed, held
from poise.scenario import terms

GIVEN = {
    "block_llm": {"variants": 2},
    "energonai": {"padding": True},
    "hybrid_partition": {"tensors": "2-1-1"},
    "seesaw": {"prefill": "T4", "decode": "P4"},
}
"""Parameters of the terms that change nothing by default, or that find their own."""

LARGE = Pool(model("llama-3.1-70b"), device("H100"), tensor=4)
POOLS = (
    LARGE,
    replace(LARGE, tensor=2, pipeline=2),
    Pool(model("mixtral-8x7b"), device("H200")),
    Pool(model("qwen3-30b-a3b"), device("H100"), data=4, expert=4),
)
LONG = Chunk(4096, 0)
SHAPES = (StepShape(64), StepShape(0, (LONG,)), StepShape(0, (LONG, Chunk(500, 100))))


def made(*names: str) -> Termed:
    return Termed(Roofline(), tuple(terms.build((name, GIVEN.get(name, {}))) for name in names))


@cache
def served(*names: str) -> dict[Pool, list[object]]:
    """Steps and KV blocks of each pool that the terms can serve."""
    cost, found = made(*names), {}
    for pool in POOLS:
        try:
            own = held(cost, pool)
            estimator = cost.build(own)
        except (ScenarioError, CapacityError):
            continue
        found[pool] = [own.engine.kv_blocks, *map(estimator.step, SHAPES)]
    return found


def refusal(*names: str) -> str:
    try:
        made(*names)
    except ScenarioError as error:
        return str(error)
    return ""


ALLOWED = [pair for pair in permutations(terms.names(), 2) if not refusal(*pair)]


@pytest.mark.parametrize("pair", ALLOWED, ids="-".join)
def test_no_term_goes_unheard(pair: tuple[str, str]) -> None:
    """Where two are let through, some pool that both can serve is another one without either."""
    both = served(*pair)
    for name in pair:
        alone = served(name)
        assert not both or any(alone.get(pool) != answers for pool, answers in both.items()), name


@pytest.mark.parametrize("pair", [*combinations(terms.names(), 2)], ids="-".join)
def test_what_is_advised_helps(pair: tuple[str, str]) -> None:
    """Who is told to change the order is let through then; who is told to keep one is told so in both orders."""
    message = [refusal(*pair), refusal(*reversed(pair))]
    kept = ["keep one of them" in each for each in message]
    assert all(kept) or not any(kept)
    assert kept[0] or not all(message), message


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("moe_gen", "seesaw"), "terms MoeGen and Seesaw both say what each device does and how much KV"),
        (("diagonal_batching", "kv_runahead"), "DiagonalBatching and KvRunahead both say how prompts are computed"),
        (("pipe_infer", "introspective_diffusion"), "both say what a decode computes; keep one of them"),
        (("block_llm", "seesaw"), "Seesaw counts KV blocks by itself, without what BlockLlm takes of them; keep one"),
        (("block_llm", "expert_as_a_service"), "without what BlockLlm takes of them; name ExpertAsAService first"),
        (("energonai", "moe_gen"), "MoeGen asks for no step of what it is around; name it first, before EnergonAI"),
        (("dllm_serve", "nanoflow"), "NanoFlow counts the work of whole steps, which DllmServe changes; name NanoFlow"),
        (("nanoflow", "token_weave", "seesaw"), "NanoFlow and TokenWeave both hide the time of links; keep one"),
    ],
)
def test_refusals_name_both_terms(names: tuple[str, ...], expected: str) -> None:
    assert expected in refusal(*names)


def test_a_term_that_says_nothing_goes_beside_all() -> None:
    class Plain:
        """A term without class variables."""

    for name in terms.names():
        if not hasattr(terms.find(name), "over"):
            check_terms((terms.build((name, {})), Plain()))  # type: ignore[arg-type]
