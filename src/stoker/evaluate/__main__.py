"""All reports by name: ``python -m stoker.evaluate NAME ...``.

Called by hand. Each report is a module of this package that runs alone as well; here its name is
only the first word.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

REPORTS = (
    "capacity",
    "contract",
    "failures",
    "flags",
    "log_formats",
    "logs",
    "parsers",
    "recipes",
    "tuning",
)


def main(arguments: Sequence[str]) -> None:
    """Run the report that the first word names, with the words behind it."""
    name = arguments[0] if arguments else ""
    if name not in REPORTS:
        sys.exit(f"name a report: {', '.join(REPORTS)}")
    module = f"stoker.evaluate.{name}"
    sys.argv = [module, *arguments[1:]]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
