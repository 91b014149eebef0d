"""Make the pictures of the documentation anew: run the commands that they show, and photograph their pages.

    python tools/pictures.py             all of docs/images; it needs Chromium and Pillow
    python tools/pictures.py plan        one of report, plan, compare, gateway

A picture is reduced to 256 colours, so that all of them together stay below 300 kB.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TUTORIAL = ROOT / "docs" / "tutorial.md"
WIDTH, HEIGHT = 1300, 800
MODEL = "meta-llama/Llama-3.1-8B"
WAIT_S, TRAFFIC_S = 120.0, 45.0


def main() -> None:
    """Make those that the command line names."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documentation.")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(PICTURES)} (default: all)")
    names = parser.parse_args().names or [*PICTURES]
    with tempfile.TemporaryDirectory(prefix="poise-pictures-") as folder:
        for name in names:
            PICTURES[name](Path(folder))
            print(f"docs/images/{name}.png: {(IMAGES / f'{name}.png').stat().st_size / 1e3:.0f} kB")


def report(folder: Path) -> None:
    """The report of the demo."""
    poise(folder, "demo", "--out", "demo")
    photograph((folder / "demo" / "report.html").as_uri(), "report")


def plan(folder: Path) -> None:
    """The page of the tutorial's plan."""
    planned(folder)
    photograph((folder / "plan" / "plan.html").as_uri(), "plan")


def compare(folder: Path) -> None:
    """The report of the tutorial's comparison."""
    planned(folder)
    poise(folder, *command("compare"))
    photograph((folder / "compared" / "report.html").as_uri(), "compare")


def gateway(folder: Path) -> None:
    """The page of the tutorial's gateway, under traffic."""
    planned(folder)
    with ExitStack() as running:
        for port in (8100, 9100, 10100):
            running.enter_context(started(folder, "engine", "--model", MODEL, "--port", str(port)))
        running.enter_context(started(folder, "serve", "plan/gateway.yaml"))
        until_ready("http://127.0.0.1:8000/v1/models")
        running.enter_context(started(folder, script=traffic()))
        time.sleep(TRAFFIC_S)
        photograph("http://127.0.0.1:8001", "gateway", wait_ms=10_000)


PICTURES: dict[str, Callable[[Path], None]] = {"report": report, "plan": plan, "compare": compare, "gateway": gateway}


def planned(folder: Path) -> None:
    """The tutorial's trace and plan, once."""
    if not (folder / "plan").is_dir():
        subprocess.run([sys.executable, "-c", blocks("python")[0]], cwd=folder, check=True)
        poise(folder, *command("plan"))


def blocks(language: str) -> list[str]:
    """The blocks of a language in the tutorial."""
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)


def command(name: str) -> list[str]:
    """The words of a command of the tutorial, behind `poise`."""
    lines = (line for block in blocks("console") for line in block.splitlines())
    return next(shlex.split(line)[2:] for line in lines if line.startswith(f"$ poise {name} "))


def traffic() -> str:
    """The tutorial's client."""
    return next(block for block in blocks("text") if "urllib" in block)


def poise(folder: Path, *words: str) -> None:
    """Run a command in a folder."""
    subprocess.run([sys.executable, "-m", "poise", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def started(folder: Path, *words: str, script: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A command, or a script, that runs until the end of the block."""
    given = ["-c", script] if script else ["-m", "poise", *words]
    process = subprocess.Popen([sys.executable, *given], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def until_ready(url: str) -> None:
    """Wait until a server answers with a model."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            if json.load(urllib.request.urlopen(url, timeout=5)).get("data"):
                return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"{url}: no answer within {WAIT_S:g} s")


def photograph(url: str, name: str, wait_ms: int = 0) -> None:
    """A picture of the top of a page, with few colours."""
    from PIL.Image import open as open_image

    browser = next((found for each in ("chromium", "google-chrome") if (found := shutil.which(each))), None)
    if browser is None:
        sys.exit("there is no Chromium on the PATH")
    file = IMAGES / f"{name}.png"
    wait = [f"--timeout={wait_ms}"] if wait_ms else []
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", *wait,
         f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={file}", url],
        check=True, capture_output=True,
    )  # fmt: skip
    with open_image(file) as taken:
        few(taken.convert("RGB")).save(file, optimize=True)


def few(picture: Image) -> Image:
    """A picture in 256 of its colours, frequent or vivid ones; Pillow's own choice merges those of different lines."""
    import numpy as np
    from PIL.Image import fromarray

    pixels = np.asarray(picture).reshape(-1, 3)
    colours, where, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    vivid = 1 + np.ptp(colours.astype(int), axis=1)
    kept = colours[np.argsort(-counts * vivid)[:256]]
    nearest = ((colours[:, None].astype(int) - kept) ** 2).sum(axis=2).argmin(axis=1)
    drawn = fromarray(nearest[where].reshape(picture.height, picture.width).astype(np.uint8), "P")
    drawn.putpalette(kept.tobytes())
    return drawn


if __name__ == "__main__":
    main()
