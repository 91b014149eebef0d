"""Models are those of `transformers`: logits, gradients and names of weights, in both directions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cached import Unavailable, library
from tests.patience import PATIENCE_S
from tests.runtime.models.configs import CONFIGS

ROOT = Path(__file__).parents[3]
PACKAGE = "transformers==5.24.0"


@pytest.fixture(scope="module")
def packages() -> Path:
    try:
        return library(PACKAGE)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients_are_equal(packages: Path, name: str) -> None:
    paths = os.pathsep.join([str(ROOT), str(packages)])
    ran = subprocess.run(
        [sys.executable, "-m", "tests.runtime.models.hugging_face", name],
        env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}, cwd=ROOT, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert found["size"] > 1  # no logits near 0, which all models would share
    assert max(found["logits"], found["gradients"], found["back"]) < 1e-10, found
