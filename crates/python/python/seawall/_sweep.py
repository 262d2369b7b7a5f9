"""Sweeps, here or on the workers of an executor or of a Dask cluster.

The points of a sweep are tasks. Whoever runs them, in whatever order, the file is the same to the
byte: lines come as points finish, and are put in the order of the experiment when all are there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from math import isfinite
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _points, _seawall
from ._call import Follower, Interrupted, Path, Progress, check_types, follower, interruptible
from ._crew import Crew, Workers, check_workers, crew_of
from ._files import is_parquet, parquet_writer
from ._programs import serve_here
from ._said import check_number, path_of, shown
from ._table import Table

if TYPE_CHECKING:
    from distributed import Client

#: A name, a path, or a description.
Experiment = Union[Path, Mapping[str, object]]

#: Seconds after which Ctrl-C is looked at, and the workers of a cluster are.
WAIT_SECONDS = 0.1


def sweep(
    experiment: Experiment,
    *,
    out: Optional[Path] = None,
    jobs: Optional[int] = None,
    plot: Optional[Path] = None,
    html: Optional[Path] = None,
    csv: Optional[Path] = None,
    latex: Optional[Path] = None,
    executor: Workers = None,
    client: Optional[Client] = None,
    progress: Progress = None,
) -> Table:
    """Vary the numbers of designs and machines, and show how the cost of persistency grows.

    Every finished point is a line of ``out``. The same call goes on from there after an
    interruption, with whatever workers there are then. When all points are there, the file is the
    same to the byte as that of ``seawall sweep``, whoever ran them.

    A worker must have the same build of seawall, because another one may count other cycles. An
    executor whose worker has not ends the sweep with ``Error``, which names the worker; such a
    worker of a Dask cluster gets no points, and a warning names it. A point whose Dask worker is
    lost goes to another. The processes of a ``ProcessPoolExecutor`` take the pool with them when
    they die: give a function, and it makes the next pool.

    :param experiment: bsp-sweep, bsp-sweep-quick, nvm-sweep-quick, the path of a .toml file, or
        what such a file says, as a dictionary (``seawall sweep --help`` has the language)
    :param out: File of records, as JSON Lines, which keeps its finished points if stopped
        [default: the experiment's name with .jsonl, in this folder], or sweep.jsonl for a
        dictionary; a file has the points of one experiment. With a name that ends with
        .parquet, a Parquet file is made of it at the end, which needs polars or pyarrow; points are
        kept in the file of the same name with .jsonl.
    :param jobs: Host threads, where neither an executor nor a client is given [default: one per
        core]
    :param plot: Draw a chart for each factor to this SVG file [if stopped: to FILE.partial]
    :param html: Write a page for a browser to this file: charts, a table, and what is behind each
        row [if stopped: to FILE.partial]
    :param csv: Write the table to this file as comma-separated values [if stopped: to FILE.partial]
    :param latex: Write the table to this file as a tabular of LaTeX [if stopped: to FILE.partial]
    :param executor: Runs the points: any ``concurrent.futures.Executor``, or a function that makes
        one. Processes must be spawned, as forks of a process with threads may hang.
    :param client: Runs the points on the workers of this client's Dask cluster, also on those that
        come late
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    check_types(sweep, locals())
    check_workers(executor, client)
    check_number("jobs", jobs)
    name, text = _named(experiment)
    out = _path("out", out)
    results = {
        name: _path(name, path)
        for name, path in (("plot", plot), ("html", html), ("csv", csv), ("latex", latex))
    }
    parquet = out if is_parquet(out) else None
    if parquet is not None:
        _check_others(parquet, results)
        with interruptible("sweep"):
            parquet_writer()
        out = os.path.splitext(parquet)[0] + ".jsonl"
    if sys.executable:
        serve_here()
    follow, show = follower(progress, "sweep")
    with interruptible("sweep"):
        file = _seawall.SweepFile(name, text, out, jobs, list(results.values()), show)
    try:
        _on_crew(file, jobs, executor, client, follow)
    except KeyboardInterrupt:
        partial = Table(file.finish())
        said = f"{len(partial)} of {file.points()} points are in {file.out()}"
        raise Interrupted(
            f"sweep was stopped: {said}; the same call goes on from there",
            partial if len(partial) else None,
        ) from None
    except BaseException:
        file.close()
        raise
    finally:
        if follow is not None:
            follow.close()
    with interruptible("sweep"):
        table = Table(file.finish())
        if parquet is not None:
            table.to_parquet(parquet)
    return table


def _named(experiment: Experiment) -> tuple[str, Optional[str]]:
    """The name of an experiment, and its description if it is not in a file."""
    if isinstance(experiment, Mapping):
        try:
            return "sweep", json.dumps(_plain(experiment, "experiment"))
        except RecursionError:
            raise _seawall.Error("experiment is a dictionary without an end") from None
        except ValueError as error:
            raise _seawall.Error(f"experiment has what is no number ({error})") from None
    if not isinstance(experiment, (str, os.PathLike)):
        raise TypeError(f"experiment is {shown(experiment)}; give a name, a path or a dictionary")
    return path_of("experiment", experiment), None


def _path(name: str, value: Optional[Path]) -> Optional[str]:
    return None if value is None else path_of(name, value)


def _plain(value: Any, where: str) -> object:
    """What TOML has instead of a value: numbers of NumPy have `item`, arrays `tolist`."""
    for method in ("tolist", "item"):
        if hasattr(value, method):
            value = getattr(value, method)()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, f"{where}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, (str, bool, int)) or isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return [_plain(inner, f"{where}[{at}]") for at, inner in enumerate(value)]
    raise TypeError(f"{where} is {shown(value)}; give a number, a text, a list or a dictionary")


def _check_others(parquet: str, others: Mapping[str, Optional[str]]) -> None:
    """Refuses a file that would be written over another one."""
    for name, other in others.items():
        if other is not None and os.path.realpath(other) == os.path.realpath(parquet):
            raise _seawall.Error(
                f"out and {name} name the same file, {parquet}: name another one"
            )


def _on_crew(
    file: _seawall.SweepFile,
    jobs: Optional[int],
    executor: Workers,
    client: Optional[Client],
    follow: Optional[Follower],
) -> None:
    left = "the same call goes on with the points that are left"
    if executor is None and client is None:
        executor = partial(_threads, jobs)
    with crew_of(_points.run_point, left, executor, client) as crew:
        _give_all(file, crew, follow)


def _threads(jobs: Optional[int]) -> Executor:
    return ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0)))


def _give_all(file: _seawall.SweepFile, crew: Crew, follow: Optional[Follower]) -> None:
    """Gives out all points that are left: baselines first, then those that have most to do.

    A point is given out when its baseline is done, as its time is relative to that.
    """
    left = {key: (baseline, about, task) for key, baseline, about, task in file.left()}
    ready: list[tuple[tuple[int, int], str]] = []
    waiting: dict[str, list[str]] = {}
    for key, (baseline, _, _) in left.items():
        if baseline is not None and baseline in left:
            waiting.setdefault(baseline, []).append(key)
        else:
            heappush(ready, (_order(file, baseline), key))
    done, total = file.points() - len(left), file.points()
    if follow is not None:
        follow(done, total, "")
    finished: set[str] = set()
    while len(finished) < len(left):
        while ready and crew.has_room:
            _, key = heappop(ready)
            baseline, _, task = left[key]
            cycles = None if baseline is None else file.cycles(baseline)
            crew.give((key, (task, cycles)))
        answer = crew.next(WAIT_SECONDS)
        if answer is None:
            continue
        line, key = answer
        file.add(line)
        if key in finished:
            continue
        finished.add(key)
        for other in waiting.pop(key, []):
            heappush(ready, (_order(file, left[other][0]), other))
        if follow is not None:
            follow(done + len(finished), total, left[key][1])


def _order(file: _seawall.SweepFile, baseline: Optional[str]) -> tuple[int, int]:
    """Baselines come first, then the longest, so that none runs alone at the end."""
    return (0, 0) if baseline is None else (1, -file.references(baseline))
