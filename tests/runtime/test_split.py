"""Input and weight gradients apart are those of one backward, for modules of any shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from poise.runtime.split import input_gradients, weight_gradients


class Tied(nn.Module):
    """One matrix and one bias used three times, once bare."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x * self.bias @ self.weight + self.bias)
        return nn.functional.linear(x, self.weight, self.bias) * self.bias + (self.weight**2).sum()


class Own(torch.autograd.Function):
    """A product whose backward is written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        return gradient @ w.T, x.T @ gradient


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        return Own.apply(torch.relu(Own.apply(x, self.w)), self.w.T)  # type: ignore[no-any-return]


class Gated(nn.Module):
    """A layer whose weight is made by another; a frozen one; weights that meet no input."""

    def __init__(self) -> None:
        super().__init__()
        self.make = nn.Linear(4, 36)
        self.seed = nn.Parameter(torch.randn(4))
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.alone = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.make(self.seed).view(6, 6)
        return self.frozen(y).softmax(-1) * self.alone.exp() + self.alone


MODULES: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 6, bias=False)),
    "attention": lambda: nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True),
    "recurrent": lambda: Recurrent(),
    "convolution": lambda: nn.Sequential(nn.Unflatten(-1, (1, 6)), nn.Conv1d(1, 3, 3, padding=1), nn.Flatten(-2)),
    "tied": Tied,
    "by hand": ByHand,
    "gated": Gated,
    "no weights": lambda: nn.Softmax(-1),
}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(3):
            state = self.cell(x, state)
        return state


def _case(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    module = MODULES[name]().double()
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    return module, x, torch.randn_like(module(x))


@pytest.mark.parametrize("name", MODULES)
def test_both_parts_are_one_backward(name: str) -> None:
    module, x, gradient = _case(name)
    weights = [each for each in module.parameters() if each.requires_grad]
    wanted = torch.autograd.grad(module(x), [x, *weights], gradient, allow_unused=True)
    found, rest = input_gradients([get_gradient_edge(module(x))], [gradient], [x])
    assert all(weight.grad is None for weight in weights)
    weight_gradients(rest)
    for mine, true in zip([found[0], *(weight.grad for weight in weights)], wanted, strict=True):
        assert (mine is None) == (true is None)
        assert mine is None or true is None or torch.allclose(mine, true, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["layers", pytest.param("attention", marks=pytest.mark.slow)])
def test_nothing_is_computed_twice(name: str) -> None:
    """Over both parts every matrix product of the plain backward happens once."""
    module, x, gradient = _case(name)
    whole = _products(lambda: module(x).backward(gradient), module(x))
    y = module(x)
    edge = get_gradient_edge(y)
    forward = _products(lambda: None, y)
    found: list[Any] = []
    first = _products(lambda: found.extend(input_gradients([edge], [gradient], [x])), y)
    second = _products(lambda: weight_gradients(found[1]), y)
    assert forward == 0 < second
    assert first + second == whole - _products(lambda: module(x), y)


def _products(work: Callable[[], Any], y: Tensor) -> int:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        work()
    return sum(each.count for each in seen.key_averages() if each.key in ("aten::mm", "aten::addmm", "aten::bmm"))


def test_without_inputs_all_is_left_to_the_weights() -> None:
    layer = nn.Linear(6, 6)
    y = layer(torch.ones(2, 6))
    found, rest = input_gradients([get_gradient_edge(y)], [torch.ones_like(y)], [])
    assert found == () and layer.weight.grad is None
    weight_gradients(rest)
    assert torch.equal(layer.weight.grad, torch.full((6, 6), 2.0))  # type: ignore[arg-type]


def test_an_input_that_is_not_used_has_no_gradient() -> None:
    layer = nn.Linear(6, 6)
    used, unused = torch.randn(2, 6, requires_grad=True), torch.randn(2, 6, requires_grad=True)
    y = layer(used)
    found, _ = input_gradients([get_gradient_edge(y)], [torch.ones_like(y)], [used, unused])
    assert found[0] is not None and found[1] is None
