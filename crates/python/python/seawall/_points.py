"""What a worker does: a point of a sweep, or a part of an exploration, if it is of the same build."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import time
from functools import cache
from typing import Callable, Optional

from . import _seawall
from ._programs import serve_here

#: The numbers of these options of glibc's `mallopt`.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: Bytes of free memory that a worker keeps.
KEPT_BYTES = 64 << 20
#: Blocks of so many bytes, the most that glibc takes here, go back at once.
BLOCK_BYTES = 32 << 20

#: What asks the tasks of some work to end that run in this process.
STOPS: dict[str, _seawall.Stop] = {}


class OtherBuild(_seawall.Error):
    """A worker has another build of seawall, which may count other cycles."""


def build() -> str:
    """The build that a worker has."""
    return _seawall.build()


@cache
def keep_memory() -> None:
    """Lets this process keep memory from point to point, where Dask has forbidden it.

    A nanny of Dask starts its worker with MALLOC_TRIM_THRESHOLD_. So the C library gives larger
    blocks back at once, and all memory of a machine is mapped and zeroed anew for each point, which
    takes longer than a small point does. What is kept is no more than `KEPT_BYTES`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_TRIM_THRESHOLD_" in os.environ:
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def run_batch(
    run: Callable[..., str], tasks: list[tuple[object, ...]], work: str
) -> tuple[list[str], float]:
    """Runs tasks one after another; returns what came of each, and the seconds that all took."""
    keep_memory()
    begun = time.perf_counter()
    texts = [run(*words, work) for words in tasks]
    return texts, time.perf_counter() - begun


def run_point(task: str, baseline_cycles: Optional[int], work: str) -> str:
    """Runs a point of a sweep and returns its line of the file."""
    _check_build(task)
    if "program" in json.loads(task)["asked"]:
        serve_here()
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
