"""Layers of experts cut by passes, their ranks as threads: outputs and gradients are those of one process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poise.program import Program
from poise.program.expert_layer import Works, expert_layer
from poise.program.passes.comet import fine_grained
from poise.program.passes.fsmoe import chunked
from poise.program.passes.scmoe import shortcut
from poise.program.timed import timed

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from poise.runtime.program.experts import ExpertKernels, Weights  # noqa: E402
from poise.runtime.program.inproc import InProcess, run_threads  # noqa: E402
from poise.runtime.program.interpreter import Interpreter, Ran  # noqa: E402

EXPERTS, WIDTH, INNER, TOKENS = 8, 12, 16, 10
WORKS = Works(3, 2, 4, 2, 2, 3)
Edit = Callable[[Program], Program]


def route(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Top 2 of some scores, a token's own."""
    scores = torch.softmax(rows[:, :EXPERTS] * 3, dim=1)
    gates, experts = scores.topk(2, dim=1)
    return experts, gates


def dense(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The layer in one process: every expert on every token."""
    experts, gates = route(x)
    made = torch.einsum("nef,efh->neh", torch.tanh(torch.einsum("nh,ehf->nef", x, up)), down)
    found: Tensor = (torch.zeros(len(x), EXPERTS, dtype=x.dtype).scatter(1, experts, gates)[:, :, None] * made).sum(1)
    return found


def execute(
    program: Program, spread: tuple[int, int], x: list[Tensor], up: Tensor, down: Tensor
) -> tuple[list[Tensor], list[list[Ran]]]:
    program.prove()
    nodes, local = spread

    def main(transport: InProcess) -> tuple[Tensor, list[Ran]]:
        (node, part), size = divmod(transport.rank, local), EXPERTS // nodes
        own = slice(node * size, node * size + size), slice(part * INNER // local, (part + 1) * INNER // local)
        weights = Weights(node * size, up[own[0], :, own[1]], down[own[0], own[1]])
        kernels, ran = ExpertKernels(transport, weights, route, spread, EXPERTS), list[Ran]()
        output = f"output@{transport.rank}"
        run = Interpreter(
            program, transport.rank, kernels.table, transport.changed, keeps=frozenset({output}), note=ran.append
        )  # fmt: skip
        return run.run({f"state0@{transport.rank}": (x[transport.rank],)})[output][0], ran

    found = run_threads(program.ranks, main)
    return [each for each, _ in found], [ran for _, ran in found]


@pytest.mark.parametrize("before", [(), (5.0, 5.0)])
@pytest.mark.parametrize(
    ("spread", "edit", "short"),
    [
        ((4, 1), lambda program: program, False),
        ((2, 2), lambda program: chunked(program, 3), False),
        ((4, 1), lambda program: chunked(program, 5), False),
        ((4, 1), lambda program: fine_grained(program, 3), False),
        ((2, 2), lambda program: chunked(shortcut(program, 0), 2), True),
    ],
)
def test_outputs_gradients_and_order(
    before: tuple[float, ...], spread: tuple[int, int], edit: Edit, short: bool
) -> None:
    torch.manual_seed(0)
    ranks = spread[0] * spread[1]
    up, down = (torch.randn(EXPERTS, *shape, dtype=torch.float64) / 3 for shape in ((WIDTH, INNER), (INNER, WIDTH)))
    whole = [each.requires_grad_() for each in (torch.randn(ranks * TOKENS, WIDTH, dtype=torch.float64), up, down)]
    program = edit(expert_layer(*spread, WORKS, before=before))
    outputs, ran = execute(program, spread, [*whole[0].chunk(ranks)], up, down)
    state = whole[0]
    for _ in before:
        state = torch.tanh(state)
    wanted = state + dense(whole[0] if short else state, up, down)
    assert torch.allclose(torch.cat(outputs), wanted, rtol=0, atol=1e-12)
    found = torch.autograd.grad((torch.cat(outputs) ** 3).sum(), whole)
    for one, other in zip(found, torch.autograd.grad((wanted**3).sum(), whole), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)
    in_order(program, ran)


def in_order(program: Program, ran: list[list[Ran]]) -> None:
    """Each lane ran in the order that is simulated, and no task began before what it reads was there."""
    ticks = [round(task.work * 60) for task in program.index.tasks]
    simulated = timed(program, ticks, [0] * len(ticks))
    for rank, tasks in enumerate(ran):
        ended = {name: each.end for each in tasks for name in each.task.writes}
        assert all(each.start >= ended.get(name, 0) for each in tasks for name in each.task.reads)
        for lane in {each.task.lane for each in tasks}:
            rows = [each for each in simulated.rows() if each.lane == (rank, lane)]
            rows.sort(key=lambda each: (each.start, each.number))
            assert [each.task for each in tasks if each.task.lane == lane] == [each.task for each in rows]
