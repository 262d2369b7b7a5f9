"""What a worker does: a point of a sweep, or a part of an exploration, if it is of the same build."""

from __future__ import annotations

import json
import os
import socket
from typing import Optional

from . import _seawall
from ._programs import serve_here

#: What asks the tasks of some work to end that run in this process.
STOPS: dict[str, _seawall.Stop] = {}


class OtherBuild(_seawall.Error):
    """A worker has another build of seawall, which may count other cycles."""


def build() -> str:
    """The build that a worker has."""
    return _seawall.build()


def run_point(task: str, baseline_cycles: Optional[int], work: str) -> str:
    """Runs a point of a sweep and returns its line of the file."""
    _check_build(task)
    return _seawall.run_point(task, baseline_cycles, _stop_of(work))


def run_part(task: str, work: str) -> str:
    """Does a part of an exploration and returns what it found."""
    _check_build(task)
    asked = json.loads(task)
    if asked["has_program"]:
        serve_here()
    return _seawall.explore_part(asked["words"], asked["part"], _stop_of(work))


def _stop_of(work: str) -> _seawall.Stop:
    return STOPS.get(work) or _seawall.Stop()


def _check_build(task: str) -> None:
    here, there = _seawall.build(), json.loads(task)["build"]
    if here != there:
        worker = f"worker {socket.gethostname()}, process {os.getpid()},"
        raise OtherBuild(other_build(worker, here, there))


def other_build(worker: str, here: str, there: str) -> str:
    """The message that names a worker of another build."""
    return (
        f"{worker} has build {here} of seawall, and what it is to do is of build {there}: install the "
        "same package there"
    )
