"""`poise` and `python -m poise`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; what cannot even be imported (`core.compiled.check`) is one line too."""
    try:
        from poise.cli import main as command
    except ImportError as error:
        print(f"poise: {error}", file=sys.stderr)
        return 2
    return command()


if __name__ == "__main__":
    sys.exit(main())
