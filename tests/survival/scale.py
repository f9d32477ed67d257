"""How much a harness does: a taste of it in every test run, all of it with `make survive`."""

import os

LONG = os.environ.get("UEC_SURVIVE") == "1"


def times(taste: int, whole: int) -> int:
    """How often to do something in this run."""
    return whole if LONG else taste


def report(what: str) -> None:
    """Print a figure, for tests/survival/README.md; `make survive` shows them."""
    print(f"survival: {what}", flush=True)
