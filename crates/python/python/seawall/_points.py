"""What a worker does: it runs one point of a sweep, if it is of the same build."""

from __future__ import annotations

import json
import os
import socket
from typing import Optional

from . import _seawall

#: What asks the points of a sweep to end that run in this process.
STOPS: dict[str, _seawall.Stop] = {}


class OtherBuild(_seawall.Error):
    """A worker has another build of seawall, which may count other cycles."""


def build() -> str:
    """The build that a worker has."""
    return _seawall.build()


def run_point(task: str, baseline_cycles: Optional[int], sweep: str) -> str:
    """Runs a point and returns its line of the file."""
    here, there = _seawall.build(), json.loads(task)["build"]
    if here != there:
        worker = f"worker {socket.gethostname()}, process {os.getpid()},"
        raise OtherBuild(other_build(worker, here, there))
    return _seawall.run_point(task, baseline_cycles, STOPS.get(sweep) or _seawall.Stop())


def other_build(worker: str, here: str, there: str) -> str:
    """The message that names a worker of another build."""
    return (
        f"{worker} has build {here} of seawall, and the sweep is of build {there}: install the "
        "same package there"
    )
