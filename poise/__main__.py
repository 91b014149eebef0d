"""`poise` and `python -m poise`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; what cannot even be imported (`core.compiled.check`) is one line too."""
    if (
        sys.platform == "win32"
    ):  # where a pipe or a file takes the code page of the country, in which ≤ cannot be written
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8")
    try:
        from poise.cli import main as command
    except ImportError as error:
        print(f"poise: {error}", file=sys.stderr)
        return 2
    return command()


if __name__ == "__main__":
    sys.exit(main())
