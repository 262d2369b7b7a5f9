"""Sweeps on Dask: what a point costs besides its simulation, and two workers beside one.

    python bench/dask_sweep.py [--points 200] [--cells 40] [--rounds 5]

Small points run in this process and on one worker, in turns; the difference is what Dask, the tasks
and the lines of the file cost. Then points of about a second run on one worker and on two, in turns,
and the median of the rounds is told. Beside wall-clock time stands how much processor time all
processes took in it, as other work on the same cores takes from the first and hardly from the second.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Optional

import seawall

distributed: Any = importlib.import_module("distributed")


class Took(NamedTuple):
    """Seconds by the clock, and of the processors."""

    wall: float
    cpu: float


def experiment(kernel: str, points: int) -> dict[str, Any]:
    """So many points beside their baseline, which comes first."""
    return {
        "title": "A benchmark",
        "machine": "desktop",
        "kernels": [kernel],
        "designs": ["bsp-lbpp"],
        "factor": [
            {"name": "stores", "design": "stores", "values": list(range(5000, 5000 + points))}
        ],
    }


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as made,
        distributed.Client(made) as client,
    ):
        # Load the package, and meet, before anything is measured.
        client.run(seawall.build)
        yield client


def timed(what: dict[str, Any], client: Optional[Any]) -> Took:
    """Runs a sweep from an empty file."""

    def cpu() -> float:
        there = client.run(time.process_time).values() if client is not None else []
        return sum(there, time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        before, begun = cpu(), time.perf_counter()
        jobs = None if client is not None else 1
        seawall.sweep(what, out=Path(folder) / "x.jsonl", client=client, jobs=jobs, progress=False)
        return Took(time.perf_counter() - begun, cpu() - before)


def median(all: list[Took]) -> Took:
    return Took(statistics.median(it.wall for it in all), statistics.median(it.cpu for it in all))


def overhead(points: int, rounds: int) -> None:
    what = experiment("lu:2", points)
    here, there = [], []
    with cluster(1) as client:
        timed(what, client)
        for _ in range(rounds):
            here.append(timed(what, None))
            there.append(timed(what, client))
    one, other = median(here), median(there)
    by = 1000 / points
    print(f"{points} points of {one.wall * by:.1f} ms in this process, {other.wall * by:.1f} ms on a worker:")
    print(
        f"  overhead of a point {(other.wall - one.wall) * by:.1f} ms by the clock, "
        f"{(other.cpu - one.cpu) * by:.1f} ms of the processors"
    )


def throughput(kernel: str, points: int, rounds: int) -> None:
    what = experiment(kernel, points)
    took: dict[int, list[Took]] = {1: [], 2: []}
    with cluster(1) as one, cluster(2) as two:
        for _ in range(rounds):
            for workers, client in ((1, one), (2, two)):
                took[workers].append(timed(what, client))
    for workers, all in took.items():
        wall, cpu = median(all)
        print(
            f"{points} points of {kernel} on {workers} worker{'s' * (workers > 1)}: {wall:.2f} s, "
            f"{cpu:.2f} s of the processors, {cpu / wall:.2f} of them busy"
        )
    gains = sorted(one.wall / two.wall for one, two in zip(took[1], took[2]))
    print(
        f"  two workers are {statistics.median(gains):.2f} times as fast as one "
        f"({gains[0]:.2f} to {gains[-1]:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--kernel", default="radix:262144", help="one that takes about a second")
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"load of this host before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    overhead(options.points, options.rounds)
    throughput(options.kernel, options.cells, options.rounds)


if __name__ == "__main__":
    main()
