"""What `seawall sweep --dask` starts: a sweep on a Dask cluster, which ends as the command does.

    python3 -m seawall.dask_sweep --scheduler tcp://HOST:PORT [--out FILE] .. EXPERIMENT
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from typing import Any, Optional

from . import Error, Interrupted, sweep

#: Seconds within which a scheduler must answer.
PATIENCE_SECONDS = 5


def main(words: Optional[list[str]] = None) -> int:
    """Runs the sweep and prints its table: 0 fine, 1 something was found, 2 it could not be done."""
    parser = argparse.ArgumentParser(prog="seawall.dask_sweep", description=__doc__)
    parser.add_argument("experiment")
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--out")
    parser.add_argument("--plot")
    parser.add_argument("--html")
    parser.add_argument("--csv")
    parser.add_argument("--latex")
    options = parser.parse_args(words)
    connect: Any = importlib.import_module("distributed").Client

    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    try:
        client = connect(options.scheduler, timeout=PATIENCE_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        say(
            f"error: no Dask scheduler answers at {options.scheduler} ({error}): start one (dask "
            "scheduler), or see which address it prints"
        )
        return 2
    try:
        with client:
            table = sweep(
                options.experiment,
                out=options.out,
                plot=options.plot,
                html=options.html,
                csv=options.csv,
                latex=options.latex,
                client=client,
            )
    except Interrupted as error:
        if error.partial is not None:
            print(error.partial)
        say(str(error))
        return 2
    except Error as error:
        say(f"error: {error}")
        return 2
    for note in table.notes:
        say(note)
    print(table)
    return 1 if table.found else 0


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
