"""Who runs the points of a sweep: any executor, or the workers of a Dask cluster.

A crew takes points and puts what came of each into a queue. A point may be run twice, where a
worker was lost; it comes out the same.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Executor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _points
from ._seawall import Error, build

if TYPE_CHECKING:
    from distributed import Client

#: A point that was taken: its key, the text of its task, the cycles of its baseline.
Point = tuple[str, str, Optional[int]]
#: How often an executor is made again whose processes die and finish nothing in between.
REMADE_MAX = 3
#: Seconds between two looks at which workers there are.
LOOK_SECONDS = 1.0


class Crew:
    """Workers that points are given to. What comes back is waited for by `next`."""

    def __init__(self, sweep: str) -> None:
        self.sweep = sweep
        self._under_way: dict[Any, Point] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()

    @property
    def has_room(self) -> bool:
        """Whether another point is taken: no more than keep all workers busy."""
        return len(self._under_way) < self.window()

    def window(self) -> int:
        raise NotImplementedError

    def submit(self, point: Point) -> Any:
        """Gives a point to a worker; what returns is a future."""
        raise NotImplementedError

    def look(self) -> None:
        """Looks after the workers; is called every now and then."""

    def lost(self, error: BaseException, point: Point) -> None:
        """Gives a point out again whose worker was lost, or raises what is to be said."""
        raise error

    def give(self, point: Point) -> None:
        """Takes a point."""
        future = self.submit(point)
        self._under_way[future] = point
        future.add_done_callback(self._ended.put)

    def next(self, seconds: float) -> Optional[tuple[str, str]]:
        """The line of a point that is done and its key, or nothing within so many seconds."""
        self.look()
        try:
            future = self._ended.get(timeout=seconds)
        except Empty:
            return None
        point = self._under_way.pop(future, None)
        if point is None or future.cancelled():
            return None
        try:
            line: str = future.result()
        except ModuleNotFoundError as error:
            message = f"a worker has no seawall ({error}): install the same package there"
            raise Error(message) from error
        except Exception as error:
            self.lost(error, point)
            return None
        finally:
            release = getattr(future, "release", None)
            if release is not None:
                release()
        return line, point[0]

    def end(self) -> None:
        """Gives up what is under way."""
        for future in list(self._under_way):
            future.cancel()


class ExecutorCrew(Crew):
    """The workers of an executor, or of those that a function makes, one after another."""

    def __init__(self, sweep: str, executor: Union[Executor, Callable[[], Executor]]) -> None:
        super().__init__(sweep)
        self._make = None if isinstance(executor, Executor) else executor
        self._executor: Executor = executor if isinstance(executor, Executor) else executor()
        self._remade = 0

    def window(self) -> int:
        workers = getattr(self._executor, "_max_workers", None)
        return 2 * workers if isinstance(workers, int) else max(64, 4 * (os.cpu_count() or 1))

    def submit(self, point: Point) -> Any:
        _, task, baseline_cycles = point
        return self._executor.submit(_points.run_point, task, baseline_cycles, self.sweep)

    def give(self, point: Point) -> None:
        try:
            super().give(point)
        except BrokenExecutor as error:
            self.lost(error, point)

    def next(self, seconds: float) -> Optional[tuple[str, str]]:
        answer = super().next(seconds)
        if answer is not None:
            self._remade = 0
        return answer

    def lost(self, error: BaseException, point: Point) -> None:
        if not isinstance(error, BrokenExecutor):
            raise error
        if self._make is None:
            raise Error(
                f"a worker of the executor has died ({error}); the same call with a new executor "
                "goes on with the points that are left, or give a function that makes one"
            ) from error
        again = [point, *self._under_way.values()]
        self._under_way.clear()
        self._remade += 1
        if self._remade > REMADE_MAX:
            raise Error(
                f"the workers of {REMADE_MAX} executors have died, one after another, without a "
                f"point being finished ({error}): see whether there is memory enough"
            ) from error
        self._executor.shutdown(wait=False)
        self._executor = self._make()
        for one in again:
            super().give(one)

    def end(self) -> None:
        super().end()
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


class DaskCrew(Crew):
    """The workers of a Dask cluster that have this build of seawall.

    Each point may go to any worker that was there and of this build when it was given out. So no
    other worker gets one, and those that come late get their part. The scheduler gives the point of
    a worker that is lost to another one.
    """

    def __init__(self, sweep: str, client: Client) -> None:
        super().__init__(sweep)
        self._client: Any = client
        self._threads: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._asked: dict[Any, frozenset[str]] = {}
        self._next_look = 0.0
        self._had_some = False
        self.look()

    def window(self) -> int:
        return 2 * sum(self._threads.values())

    def submit(self, point: Point) -> Any:
        key, task, baseline_cycles = point
        workers = sorted(self._threads)
        future = self._client.submit(
            _points.run_point,
            task,
            baseline_cycles,
            self.sweep,
            workers=workers,
            pure=False,
        )
        self._asked[future] = frozenset(workers)
        return future

    def look(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        there = self._client.nthreads()
        self._meet(worker for worker in there if worker not in self._threads)
        self._threads = {w: n for w, n in there.items() if w not in self._refused}
        self._had_some = self._had_some or bool(self._threads)
        if there and not self._had_some:
            raise Error("; ".join(self._refused[worker] for worker in sorted(there)))
        self._asked = {it: asked for it, asked in self._asked.items() if it in self._under_way}
        for future, asked in list(self._asked.items()):
            if self._threads and not asked & self._threads.keys():
                self._again(future)

    def _meet(self, new: Iterable[str]) -> None:
        """Finds out what build workers have that were not there before."""
        workers = [worker for worker in new if worker not in self._refused]
        if not workers:
            return
        builds = self._client.run(_points.build, workers=workers, on_error="return")
        for worker in workers:
            has = builds.get(worker)
            if has == build():
                continue
            named = f"worker {worker}"
            if isinstance(has, str):
                what = _points.other_build(named, has, build())
            else:
                what = f"{named} cannot load seawall ({has}): install the same package there"
            self._refused[worker] = what
            warnings.warn(f"{what}; it gets no points", stacklevel=2)

    def _again(self, future: Any) -> None:
        """Gives a point to workers that are there, as all that it was for are gone."""
        point = self._under_way.pop(future)
        future.cancel()
        self.give(point)

    def lost(self, error: BaseException, point: Point) -> None:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        if isinstance(error, FutureCancelledError):
            self.give(point)
        elif isinstance(error, KilledWorker):
            raise Error(
                f"workers died of one point again and again ({error}): see whether they have "
                "memory enough; the same call goes on with the points that are left"
            ) from error
        else:
            raise error
