"""The plan of least time equals CP-SAT's; what workers are too few for is bounded on both sides."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

import pytest

from poise.core.errors import UserError
from poise.workload import all_at_once, workflows
from poise.workload.paths import critical_path
from poise.workload.plan_over_graph import Plan, Rule, fastest

INSTANCES = [(size, seed, tree) for size in (5, 10, 20, 30) for seed in range(6) for tree in (False, True)]


def instance(products: int, seed: int, *, tree: bool = False) -> tuple[list[Rule], set[str], str]:
    """Return (rules, what is given, target) of a random instance, as the paper draws its synthetic data.

    A random directed graph of 2 to 3 edges a product (1 to 1.5 with `tree`, most of them of a tree of depth 3); the
    predecessors of each are shuffled and split into groups, single ones (with `tree`: of two thirds), each of which is
    an alternative rule of a time between 1 and 50 and of cost 1. Products without predecessors are given.
    """
    rng = random.Random(f"{products} {seed} {tree}")
    edges = {*_tree(products, rng)} if tree else set()
    while len(edges) < rng.randint(*((products, products * 3 // 2) if tree else (2 * products, 3 * products))):
        one, other = sorted(rng.sample(range(products), 2))
        edges.add((one, other))
    rules = [rule for product in range(products) for rule in _rules(product, edges, rng, tree)]
    given = {str(product) for product in range(products) if all(other != product for _, other in edges)}
    return rules, given, str(products - 1)


def _tree(products: int, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Edges of a tree of depth 3 whose root is the last product."""
    below = [products - 1]
    left = list(range(products - 2, -1, -1))
    for level in range(3):
        width = len(left) if level == 2 else min(len(left), max(1, round(products ** ((level + 1) / 3))))
        here, left = left[:width], left[width:]
        yield from ((each, rng.choice(below)) for each in here)
        below = here or below


def _rules(product: int, edges: Collection[tuple[int, int]], rng: random.Random, tree: bool) -> Iterator[Rule]:
    before = sorted(one for one, other in edges if other == product)
    rng.shuffle(before)
    size = -(-2 * len(before) // 3) if tree else 1
    for first in range(0, len(before), max(size, 1)):
        group = tuple(str(each) for each in before[first : first + size])
        yield Rule(group, str(product), rng.randint(1, 50))


def _oracle(rules: list[Rule], given: set[str], target: str) -> tuple[int, int]:
    """(least time, least cost among the plans of that time), both proven."""
    cp_model = pytest.importorskip("ortools.sat.python.cp_model", reason="needs the extra train (ortools)")
    model = cp_model.CpModel()
    horizon = int(sum(rule.time for rule in rules))
    names = {rule.target for rule in rules} | {each for rule in rules for each in rule.sources} | given
    made = {name: model.new_int_var(0, horizon, name) for name in names}
    used = [model.new_bool_var(f"{number}") for number in range(len(rules))]
    for number, rule in enumerate(rules):
        for source in rule.sources:
            model.add(made[rule.target] >= made[source] + int(rule.time)).only_enforce_if(used[number])
            makers = [used[other] for other, each in enumerate(rules) if each.target == source]
            if source not in given:
                model.add_bool_or(makers).only_enforce_if(used[number])
    model.add_exactly_one(used[number] for number, rule in enumerate(rules) if rule.target == target)
    cost = sum(used)
    model.minimize(made[target] * (len(rules) + 1) + cost)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.value(made[target]), solver.value(cost)


@pytest.mark.parametrize(("size", "seed", "tree"), INSTANCES)
def test_the_least_time_is_proven(size: int, seed: int, tree: bool) -> None:
    rules, given, target = instance(size, seed, tree=tree)
    plan = fastest(rules, given, target)
    time, cost = _oracle(rules, given, target)
    assert plan.time == time and plan.cost >= cost
    _runs(plan, given, target)


def _runs(plan: Plan, given: set[str], target: str) -> None:
    """Each rule finds its sources, the last one makes the target, and the longest way is the time."""
    made = dict.fromkeys(given, 0.0)
    for rule in plan.rules:
        made[rule.target] = max((made[each] for each in rule.sources), default=0.0) + rule.time
    assert made[target] == plan.time and plan.rules[-1].target == target
    assert plan.makespan(len(plan.rules)) == plan.time
    work = sum(rule.time for rule in plan.rules)
    assert plan.makespan(1) == work
    for workers in (2, 3):
        least = max(plan.time, work / workers)
        assert least <= plan.makespan(workers) <= (2 - 1 / workers) * least + 1e-9


def test_a_choice_by_hand() -> None:
    """The slow single step against two quick ones side by side; a shared source is paid once."""
    rules = [
        Rule(("raw",), "product", 9),
        Rule(("left", "right"), "product", 2),
        Rule(("base",), "left", 3),
        Rule(("base",), "right", 4),
        Rule(("raw",), "base", 1),
    ]
    plan = fastest(rules, {"raw"}, "product")
    assert (plan.time, plan.cost) == (7, 4) and [rule.target for rule in plan.rules] == [
        "base",
        "left",
        "right",
        "product",
    ]
    assert fastest(rules[:1], {"raw"}, "product").time == 9
    assert fastest(rules, {"product"}, "product") == Plan((), 0.0, 0)
    assert (plan.makespan(1), plan.makespan(2)) == (10, 7)


def test_a_plan_is_a_workflow() -> None:
    rules, given, target = instance(20, 3)
    plan = fastest(rules, given, target)
    made = workflows(all_at_once(requests=1), plan.workflow(100, 20)).check()
    assert critical_path(made, [0, 0]) == {0: plan.time * 10**12}  # type: ignore[arg-type]


def test_rings_are_no_way() -> None:
    ring = [Rule(("b",), "a", 1), Rule(("a",), "b", 1)]
    with pytest.raises(UserError, match="no rules make 'a' out of c"):
        fastest(ring, {"c"}, "a")
    assert fastest([*ring, Rule(("c",), "b", 5)], {"c"}, "a").time == 6


@pytest.mark.parametrize("call", [lambda: fastest([Rule((), "a", -1)], set(), "a"), lambda: Plan((), 0, 0).makespan(0)])
def test_what_cannot_be_is_refused(call: object) -> None:
    with pytest.raises(UserError, match="must"):
        call()  # type: ignore[operator]
