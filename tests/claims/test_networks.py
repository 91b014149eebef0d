"""Networks and sites of claims: the published sizes of VGG-16 and ResNet-50, and links that a seed draws."""

from __future__ import annotations

import pytest

from poise.claims.convolutions import planned, resnet_50, vgg_16
from poise.claims.sites import iteration, links


def test_networks_have_the_published_sizes() -> None:
    """138 million weights and 15.5 billion products of VGG-16; 25.5 million and 3.9 billion of ResNet-50."""
    for network, weights, products in ((vgg_16, 138.3e6, 15.5e9), (resnet_50, 25.5e6, 3.9e9)):
        layers = list(network())
        assert sum(layer[2] for layer in layers) == pytest.approx(weights, rel=0.01)
        assert sum(layer[0] for layer in layers) / 2 == pytest.approx(products, rel=0.02)


@pytest.mark.parametrize("network", ["VGG-16", "ResNet-50"])
@pytest.mark.parametrize("far", [1e8, 1e9, 1e10])
def test_a_plan_is_never_slower_than_data_parallelism(network: str, far: float) -> None:
    found = planned(network, 2, 4, 1e10, far)
    assert found.seconds <= found.data_s
    assert (found.stages == 1) == (found.seconds == found.data_s)


def test_links_are_those_of_their_seed() -> None:
    times = links(3)
    assert times == links(3) != links(4)
    assert all(times[one][two] == times[two][one] for one in range(20) for two in range(20))
    assert max(map(max, links(3, slower=10))) == 10 * max(map(max, times))


def test_skipping_all_that_may_be_skipped_is_faster() -> None:
    whole, short = (iteration(skip, False, 1, microbatches=10, slower=10) for skip in (0, 0.5))
    assert short < whole
