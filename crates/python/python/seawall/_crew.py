"""Who runs the tasks of long work, points of a sweep or parts of an exploration: any executor, or the
workers of a Dask cluster.

A crew takes tasks and puts what came of each into a queue. A task may be run twice, where a worker
was lost; it comes out the same.

Short tasks go out several at a time, in batches of about `BATCH_SECONDS` of work: what it costs to
hand something to a worker and to fetch what came of it, some milliseconds on Dask, is paid once a
batch. A batch is what is lost with a worker, and what one may have to do while another has nothing.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Executor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional, Union
from uuid import uuid4

from . import _points
from ._seawall import Error, Stop, build

if TYPE_CHECKING:
    from distributed import Client

#: A task that was taken: its key, and what its function is called with.
Task = tuple[str, tuple[object, ...]]
#: Tasks that one worker does, one after another.
Batch = list[Task]
#: An executor, or a function that makes one.
Workers = Union[None, Executor, Callable[[], Executor]]
#: How often an executor is made again whose processes die and finish nothing in between.
REMADE_MAX = 3
#: Seconds of work that are handed out at once.
BATCH_SECONDS = 0.05
#: Most tasks of a batch, so that no message is large.
BATCH_MAX = 64
#: So many batches tell how long a task takes.
BATCHES_SEEN = 8
#: Seconds between two looks at which workers there are.
LOOK_SECONDS = 1.0
#: Seconds after which what a worker has found counts as lost with the worker.
FETCH_SECONDS = 8.0


class Crew:
    """Workers that tasks are given to. What comes back is waited for by `next`."""

    def __init__(self, run: Callable[..., str], left: str) -> None:
        self._run = run
        self._left = left
        self._work = uuid4().hex
        self._next_batch: Batch = []
        self._under_way: dict[Any, Batch] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self._answers: deque[tuple[str, str]] = deque()
        self._seen: deque[tuple[int, float]] = deque(maxlen=BATCHES_SEEN)

    def __enter__(self) -> Crew:
        _points.STOPS[self._work] = Stop()
        return self

    def __exit__(self, *_: object) -> None:
        _points.STOPS.pop(self._work).set()
        self.end()

    @property
    def has_room(self) -> bool:
        """Whether another task is taken: no more than keep all workers busy."""
        return len(self._under_way) < self.window()

    def window(self) -> int:
        """Batches that may be under way."""
        raise NotImplementedError

    def submit(self, call: Callable[..., Any], *words: object) -> Any:
        """Has a worker call a function; what returns is a future."""
        raise NotImplementedError

    def look(self) -> None:
        """Looks after the workers; is called every now and then."""

    def lost(self, error: BaseException, batch: Batch) -> None:
        """Gives a batch out again whose worker was lost, or raises what is to be said."""
        raise error

    def give(self, task: Task) -> None:
        """Takes a task."""
        self._next_batch.append(task)
        if len(self._next_batch) >= self._batch_tasks():
            self._hand_out_rest()

    def _batch_tasks(self) -> int:
        """Tasks of the next batch, by what the last ones took; at most twice as many as one had."""
        tasks = sum(count for count, _ in self._seen)
        seconds = sum(seconds for _, seconds in self._seen)
        if not tasks:
            return 1
        fitting = int(BATCH_SECONDS * tasks / max(seconds, 1e-9))
        most = 2 * max(count for count, _ in self._seen)
        return max(1, min(fitting, most, BATCH_MAX))

    def _hand_out_rest(self) -> None:
        """Hands out what was taken and no worker has."""
        batch, self._next_batch = self._next_batch, []
        if batch:
            self.hand_out(batch)

    def hand_out(self, batch: Batch) -> None:
        """Gives a batch to a worker."""
        words = [words for _, words in batch]
        future = self.submit(_points.run_batch, self._run, words, self._work)
        self._under_way[future] = batch
        future.add_done_callback(self._ended.put)

    def next(self, seconds: float) -> Optional[tuple[str, str]]:
        """What came of a task that is done and its key, or nothing within so many seconds."""
        self._hand_out_rest()
        self.look()
        if not self._answers:
            self._fetch(seconds)
        return self._answers.popleft() if self._answers else None

    def _fetch(self, seconds: float) -> None:
        """Takes what came of the next batch that has ended."""
        try:
            future = self._ended.get(timeout=seconds)
        except Empty:
            return
        batch = self._under_way.pop(future, None)
        if batch is None or future.cancelled():
            return
        try:
            texts, spent = self.result_of(future)
        except ModuleNotFoundError as error:
            message = f"a worker has no seawall ({error}): install the same package there"
            raise Error(message) from error
        except Exception as error:
            self.lost(error, batch)
            return
        finally:
            release = getattr(future, "release", None)
            if release is not None:
                release()
        self._seen.append((len(batch), spent))
        self._answers.extend((text, key) for text, (key, _) in zip(texts, batch))

    def result_of(self, future: Any) -> tuple[list[str], float]:
        """What came of a batch that has ended, and the seconds that it took."""
        result: tuple[list[str], float] = future.result()
        return result

    def end(self) -> None:
        """Gives up what is under way."""
        for future in list(self._under_way):
            future.cancel()


def made_by(function: Callable[[], Executor]) -> Executor:
    """The executor that a function makes."""
    executor = function()
    if not hasattr(executor, "submit"):
        raise TypeError(f"the function for executor gave {executor!r}; give one that makes an Executor")
    return executor


class ExecutorCrew(Crew):
    """The workers of an executor, or of those that a function makes, one after another."""

    def __init__(
        self,
        run: Callable[..., str],
        left: str,
        executor: Union[Executor, Callable[[], Executor]],
    ) -> None:
        super().__init__(run, left)
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else made_by(executor)
        self._remade = 0

    def window(self) -> int:
        workers = getattr(self._executor, "_max_workers", None)
        return 2 * workers if isinstance(workers, int) else max(64, 4 * (os.cpu_count() or 1))

    def submit(self, call: Callable[..., Any], *words: object) -> Any:
        return self._executor.submit(call, *words)

    def hand_out(self, batch: Batch) -> None:
        try:
            super().hand_out(batch)
        except BrokenExecutor as error:
            self.lost(error, batch)

    def next(self, seconds: float) -> Optional[tuple[str, str]]:
        answer = super().next(seconds)
        if answer is not None:
            self._remade = 0
        return answer

    def lost(self, error: BaseException, batch: Batch) -> None:
        if not isinstance(error, BrokenExecutor):
            raise error
        if self._make is None:
            raise Error(
                f"a worker of the executor has died ({error}): give a function that makes executors, "
                f"and the next one does what is left; with a new executor, {self._left}"
            ) from error
        again = [batch, *self._under_way.values()]
        self._under_way.clear()
        self._remade += 1
        if self._remade > REMADE_MAX:
            raise Error(
                f"the workers of {REMADE_MAX} executors have died, one after another, without "
                f"anything being finished ({error}): see whether there is memory enough"
            ) from error
        self._executor.shutdown(wait=False)
        self._executor = made_by(self._make)
        for one in again:
            super().hand_out(one)

    def end(self) -> None:
        super().end()
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


class DaskCrew(Crew):
    """The workers of a Dask cluster that have this build of seawall.

    Each batch may go to any worker that was there and of this build when it was given out. So no
    other worker gets one, and those that come late get their part. The scheduler gives the batch
    of a worker that is lost to another one.
    """

    def __init__(self, run: Callable[..., str], left: str, client: Client) -> None:
        super().__init__(run, left)
        self._client: Any = client
        self._threads: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._asked: dict[Any, frozenset[str]] = {}
        self._next_look = 0.0
        self._had_some = False
        self.look()

    def window(self) -> int:
        return 2 * sum(self._threads.values())

    def submit(self, call: Callable[..., Any], *words: object) -> Any:
        workers = sorted(self._threads)
        future = self._client.submit(call, *words, workers=workers, pure=False)
        self._asked[future] = frozenset(workers)
        return future

    def result_of(self, future: Any) -> tuple[list[str], float]:
        """Not from a worker that is gone with it: the scheduler would wait for another one forever."""
        result: tuple[list[str], float] = future.result(timeout=FETCH_SECONDS)
        return result

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
            warnings.warn(f"{what}; it gets nothing to do", stacklevel=2)

    def _again(self, future: Any) -> None:
        """Gives a batch to workers that are there, as all that it was for are gone."""
        batch = self._under_way.pop(future)
        future.cancel()
        self.hand_out(batch)

    def lost(self, error: BaseException, batch: Batch) -> None:
        from distributed import KilledWorker, TimeoutError
        from distributed.client import FutureCancelledError

        if isinstance(error, (FutureCancelledError, TimeoutError)):
            self.hand_out(batch)
        elif isinstance(error, KilledWorker):
            raise Error(
                f"workers died of one task again and again ({error}): see whether they have "
                f"memory enough; then {self._left}"
            ) from error
        else:
            raise error


def check_workers(executor: object, client: object) -> None:
    """Refuses what is neither an executor nor a client, before anything is begun."""
    if executor is not None and client is not None:
        raise TypeError("executor and client are two ways to run tasks; give one of them")
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise TypeError(
            f"executor is {executor!r}; give a concurrent.futures.Executor, or a function that makes one"
        )
    if client is not None and not hasattr(client, "nthreads"):
        if hasattr(client, "scheduler_address"):
            raise TypeError(f"client is the cluster {client!r}; give distributed.Client(cluster)")
        example = client if isinstance(client, str) else "tcp://scheduler:8786"
        raise TypeError(f"client is {client!r}; give distributed.Client({example!r})")


def crew_of(
    run: Callable[..., str],
    left: str,
    executor: Workers,
    client: Optional[Client],
) -> Crew:
    """The crew of an executor or a client; `left` says what becomes of what was not done."""
    if client is not None:
        return DaskCrew(run, left, client)
    assert executor is not None
    return ExecutorCrew(run, left, executor)
