from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.runtime.pool import Pool

torch = pytest.importorskip("torch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All on one worker, so that they share one pool of processes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ranks"))


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    from tests.runtime.pool import Pool

    torch.set_num_threads(1)  # matrices are small: threads would but wait for each other
    made = Pool()
    yield made
    made.close()
