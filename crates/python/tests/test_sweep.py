"""A sweep's file is that of the command to the byte, whoever runs the points, in whatever order."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import seawall
from conftest import SWEEP, SWEEP_TOML, Command
from seawall import _crew, _seawall

SPAWN = multiprocessing.get_context("spawn")


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=SPAWN)


class Backwards(Executor):
    """Runs the last of what it was given first, one at a time."""

    def __init__(self) -> None:
        self._given: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._came = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._came:
            self._given.append((future, lambda: fn(*args, **kwargs)))
            self._came.notify()
        return future

    def _work(self) -> None:
        while True:
            time.sleep(0.02)
            with self._came:
                while not self._given:
                    self._came.wait()
                future, act = self._given.pop()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(act())
                except BaseException as error:
                    future.set_exception(error)


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: ThreadPoolExecutor(3), processes, Backwards],
    ids=["here", "threads", "processes", "backwards"],
)  # fmt: skip
def test_the_file_is_that_of_the_command(
    make: Callable[[], Any], swept: bytes, here: Path
) -> None:
    (here / "x.toml").write_text(SWEEP_TOML)
    executor = make()
    table = seawall.sweep("x.toml", out="out.jsonl", executor=executor)
    assert (here / "out.jsonl").read_bytes() == swept
    assert table.complete and len(table) == swept.count(b"\n")
    if executor is not None:
        executor.shutdown()


def test_the_table_and_the_plot_are_those_of_the_command(
    seawall_command: Command, here: Path
) -> None:
    (here / "x.toml").write_text(SWEEP_TOML)
    files = ("--plot", "command.svg", "--csv", "command.csv", "--latex", "command.tex")
    printed = seawall_command("sweep", "x.toml", *files)
    table = seawall.sweep(SWEEP, out="function.jsonl", plot="function.svg", html="function.html")
    assert repr(table) == printed.rstrip("\n")
    assert "seawall.sweep(..), of a dictionary" in (here / "function.html").read_text()
    seawall.sweep(
        "x.toml",
        out="function.jsonl",
        html="named.html",
        csv="function.csv",
        latex="function.tex",
    )
    assert "seawall sweep x.toml" in (here / "named.html").read_text()
    for name in ("svg", "csv"):
        assert (here / f"function.{name}").read_bytes() == (here / f"command.{name}").read_bytes()
    tabular = [(here / f"{of}.tex").read_text().split("\n", 1)[1] for of in ("function", "command")]
    assert tabular[0] == tabular[1]
    assert (here / "function.jsonl").read_bytes() == (here / "x.jsonl").read_bytes()
    assert table == seawall.read("function.jsonl")


class Stopped(Exception):
    """What ends a sweep in the middle."""


def stop_at(count: int) -> Callable[[int, int, str], None]:
    def follow(done: int, total: int, note: str) -> None:
        if done >= count:
            raise Stopped

    return follow


def test_a_sweep_goes_on_where_another_has_stopped(swept: bytes, here: Path) -> None:
    out = here / "out.jsonl"
    with pytest.raises(Stopped):
        seawall.sweep(SWEEP, out=out, executor=Backwards(), progress=stop_at(7))
    before = out.read_bytes()
    assert 7 <= before.count(b"\n") < swept.count(b"\n")
    out.write_bytes(before[:-10])
    told: list[int] = []
    seawall.sweep(SWEEP, out=out, jobs=2, progress=lambda done, total, note: told.append(done))
    assert told[0] == before.count(b"\n") - 1 and told[-1] == swept.count(b"\n")
    assert out.read_bytes() == swept


class Counting(ThreadPoolExecutor):
    """Notes how many tasks it is given at once."""

    def __init__(self) -> None:
        super().__init__(1)
        self.batches: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        _, tasks, _ = args
        self.batches.append(len(tasks))
        return super().submit(fn, *args, **kwargs)


def test_short_points_go_out_several_at_a_time(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a host that others keep busy, a short one takes long, too.
    monkeypatch.setattr(_crew, "BATCH_SECONDS", 60.0)
    points = list(range(50, 150))
    small = {
        **SWEEP,
        "kernels": ["lu:2"],
        "designs": ["bsp-lbpp"],
        "crashes": 0,
        "factor": [{"name": "stores", "design": "stores", "values": points}],
    }
    with Counting() as executor:
        table = seawall.sweep(small, out="out.jsonl", executor=executor)
    assert sum(executor.batches) == len(table) == len(points) + 1
    assert executor.batches[0] == 1, "how long one takes is not known yet"
    assert 2 <= max(executor.batches) <= _crew.BATCH_MAX
    assert len(executor.batches) < 20
    seawall.sweep(small, out="alone.jsonl", jobs=1)
    assert (here / "out.jsonl").read_bytes() == (here / "alone.jsonl").read_bytes()


def test_long_tasks_go_out_alone_and_few_may_wait() -> None:
    def run(number: int, work: str) -> str:
        time.sleep(_crew.BATCH_SECONDS * 0.6)
        return f"{number}"

    with Counting() as executor, _crew.crew_of(run, "", executor, None) as crew:
        given = 0
        done: list[tuple[str, str]] = []
        while len(done) < 6:
            while given < 6 and crew.has_room:
                crew.give((f"task {given}", (given,)))
                given += 1
            assert given - len(done) <= 2
            done += [answer for answer in [crew.next(1)] if answer is not None]
    assert executor.batches == [1] * 6
    assert sorted(done) == [(f"{n}", f"task {n}") for n in range(6)]


def test_a_file_that_is_written_is_refused(here: Path) -> None:
    opened: list[str] = []

    def follow(done: int, total: int, note: str) -> None:
        with pytest.raises(seawall.Error) as raised:
            seawall.sweep(SWEEP, out="out.jsonl")
        opened.append(str(raised.value))
        raise Stopped

    with pytest.raises(Stopped):
        seawall.sweep(SWEEP, out="out.jsonl", progress=follow)
    assert "another seawall is writing out.jsonl" in opened[0]
    seawall.sweep(SWEEP, out="out.jsonl")


def kill_one_at(count: int) -> Callable[[int, int, str], None]:
    """Kills a process of a pool when so many points are done."""
    killed: list[int] = []

    def follow(done: int, total: int, note: str) -> None:
        if done >= count and not killed:
            pid = multiprocessing.active_children()[0].pid
            assert pid is not None
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    return follow


def test_a_pool_whose_process_dies_is_made_again(swept: bytes, here: Path) -> None:
    made: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(processes())
        return made[-1]

    seawall.sweep(SWEEP, out="out.jsonl", executor=make, progress=kill_one_at(4))
    assert len(made) == 2
    assert (here / "out.jsonl").read_bytes() == swept


def test_a_pool_that_nobody_can_make_again_is_named_and_what_is_done_stays(
    swept: bytes, here: Path
) -> None:
    with processes() as pool, pytest.raises(seawall.Error, match="worker of the executor has died"):
        seawall.sweep(SWEEP, out="out.jsonl", executor=pool, progress=kill_one_at(4))
    done = (here / "out.jsonl").read_bytes().count(b"\n")
    assert 4 <= done < swept.count(b"\n")
    with processes() as pool:
        seawall.sweep(SWEEP, out="out.jsonl", executor=pool)
    assert (here / "out.jsonl").read_bytes() == swept


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_pools_that_die_at_once_are_not_made_for_ever(here: Path) -> None:
    made: list[int] = []

    def make() -> ProcessPoolExecutor:
        made.append(1)
        return ProcessPoolExecutor(1, mp_context=SPAWN, initializer=die)

    with pytest.raises(seawall.Error, match="memory enough"):
        seawall.sweep(SWEEP, out="out.jsonl", executor=make)
    assert len(made) == 4


class Altered(ThreadPoolExecutor):
    """Changes what is in a task on its way."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(1)
        self._change = (old, new)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        run, tasks, work = args
        assert all(self._change[0] in task for task, *_ in tasks)
        changed = [(task.replace(*self._change), *more) for task, *more in tasks]
        return super().submit(fn, run, changed, work)


def test_a_worker_of_another_build_is_refused_by_its_name(here: Path) -> None:
    with pytest.raises(seawall.Error) as raised:
        seawall.sweep(SWEEP, out="out.jsonl", executor=Altered(seawall.build(), "0" * 16))
    message = str(raised.value)
    assert f"process {os.getpid()}" in message and seawall.build() in message, message
    assert "install the same package" in message
    assert not (here / "out.jsonl").exists()


def test_a_point_that_is_none_of_the_sweep_is_refused(here: Path) -> None:
    with pytest.raises(seawall.Error, match="no point of this sweep"):
        seawall.sweep(SWEEP, out="out.jsonl", executor=Altered('"seed":1', '"seed":2'))
    assert not (here / "out.jsonl").exists()


def test_ctrl_c_says_how_far_it_came(here: Path, swept: bytes) -> None:
    def follow(done: int, total: int, note: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(seawall.Interrupted, match="out.jsonl; the same call goes on") as raised:
        seawall.sweep(SWEEP, out="out.jsonl", progress=follow)
    assert raised.value.partial is not None and len(raised.value.partial) >= 5
    seawall.sweep(SWEEP, out="out.jsonl")
    assert (here / "out.jsonl").read_bytes() == swept


def test_ctrl_c_before_the_first_point_is_an_interruption_too(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_seawall, "SweepFile", interrupted)
    monkeypatch.setattr(_seawall, "explore_parts", interrupted)
    with pytest.raises(seawall.Interrupted, match="sweep was stopped before anything") as raised:
        seawall.sweep(SWEEP, out="out.jsonl")
    assert raised.value.partial is None
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(seawall.Interrupted, match="explore was stopped before anything"):
            seawall.explore("queue", executor=executor)


def test_executor_and_client_are_two_ways(here: Path) -> None:
    with pytest.raises(TypeError, match="one of them"):
        seawall.sweep(SWEEP, executor=ThreadPoolExecutor(1), client=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "workers, named",
    [
        ({"executor": 3}, "concurrent.futures.Executor"),
        ({"client": "tcp://here:1"}, r"distributed.Client\('tcp://here:1'\)"),
    ],
)
def test_what_is_neither_is_refused_before_anything_is_begun(
    workers: dict[str, Any], named: str, here: Path
) -> None:
    with pytest.raises(TypeError, match=named):
        seawall.sweep(SWEEP, out="out.jsonl", **workers)
    with pytest.raises(TypeError, match=named):
        seawall.explore("queue", ops=1, resume="parts.jsonl", **workers)
    assert list(here.iterdir()) == []


def test_a_parquet_file_is_made_at_the_end_of_points_that_are_kept_as_lines(
    swept: bytes, here: Path
) -> None:
    pytest.importorskip("polars")

    def stop(done: int, total: int, note: str) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(seawall.Interrupted, match="out.jsonl"):
        seawall.sweep(SWEEP, out="out.parquet", progress=stop)
    assert [path.name for path in here.iterdir()] == ["out.jsonl"]
    table = seawall.sweep(SWEEP, out="out.parquet")
    assert (here / "out.jsonl").read_bytes() == swept
    read = seawall.read(here / "out.parquet")
    cycles = [it["cycles"] for it in table]
    assert [it["cycles"] for it in read] == cycles
    assert [it["cycles"] for it in seawall.read(here / "out.jsonl")] == cycles


def test_a_point_with_more_cycles_than_there_are_is_refused(swept: bytes, here: Path) -> None:
    lines = swept.decode().splitlines(keepends=True)
    most = re.sub(r'(?<="stall_cycles":\{)[^}]*', lambda all: re.sub(r"\d+", str((1 << 64) - 1), all[0]), lines[0])
    assert most != lines[0]
    (here / "out.jsonl").write_text(most)
    with pytest.raises(seawall.Error, match="more cycles than 64 bits hold"):
        seawall.sweep(SWEEP, out="out.jsonl")
    assert (here / "out.jsonl").read_text() == most
