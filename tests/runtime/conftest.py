from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.runtime.pool import Pool

torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    from tests.runtime.pool import Pool

    torch.set_num_threads(1)  # matrices are small: threads would but wait for each other
    made = Pool()
    yield made
    made.close()
