"""Images and audio of requests: shares, distributions, traces that name them, and mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poise.core.errors import ScenarioError, UserError
from poise.workload import media, poisson, read
from poise.workload.rows import take


def test_a_share_of_the_requests_brings_some() -> None:
    base = poisson(5.0, requests=20_000, seed=1)
    made = media(base, images={"uniform": {"low": 1, "high": 3}}, audio_s=2.5, share=0.4, seed=1).check()
    assert made.images is not None and made.audio is not None
    assert (made.images > 0).mean() == pytest.approx(0.4, abs=0.02)
    assert ((made.images > 0) == (made.audio == 2500)).all() and made.images.max() == 3
    assert (made.prompt == base.prompt).all() and (made.arrival == base.arrival).all()


def test_rows_keep_theirs_and_arrivals_without_an_end_get_some_later() -> None:
    made = media(poisson(5.0, requests=50, seed=3), images={"uniform": {"low": 0, "high": 9}}, seed=3)
    assert made.images is not None
    some = take(made, np.array([7, 3, 40]))
    assert some.images is not None and list(some.images) == [made.images[row] for row in (7, 3, 40)]
    endless = media(poisson(5.0), images=1).endless
    assert endless is not None and endless(9.0).images is not None


def test_a_trace_may_name_them(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "arrival_s,prompt_tokens,output_tokens,images,audio_s\n0,10,5,2,0\n1,10,5,0,1.5\n", encoding="utf-8"
    )
    made = read(file)
    assert made.images is not None and made.audio is not None
    assert (list(made.images), list(made.audio)) == ([2, 0], [0, 1500])
    file.write_text("arrival_s,prompt_tokens,output_tokens,images\n0,10,5,-1\n", encoding="utf-8")
    with pytest.raises(UserError, match="whole number of images"):
        read(file)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"images": 1, "share": 0.0}, "share 0"),
        ({"images": 1, "size": (0, 10)}, "size"),
        ({"images": -1}, "images"),
        ({"audio_s": -1.0}, "audio_s"),
    ],
)
def test_mistakes(given: dict[str, float], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        media(poisson(5.0, requests=10), **given)  # type: ignore[arg-type]
