"""Long work shows progress, leaves the interpreter to others, and obeys Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import seawall
from tqdm import tqdm

LONG: dict[str, Any] = {"workloads": "hash", "ops": 1 << 30, "crashes": 0}


def small(progress: Any) -> seawall.Table:
    return seawall.compare(
        workloads=["queue", "sps"],
        designs=["lb", "lbpp"],
        machine="desktop",
        ops=40,
        crashes=2,
        progress=progress,
    )


def test_a_function_is_told_what_is_done_and_all_there_is() -> None:
    told: list[tuple[int, int, str]] = []
    small(lambda done, total, note: told.append((done, total, note)))
    assert told[-1][:2] == (4, 4)
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert "lb" in told[-1][2]


def test_a_class_of_tqdm_makes_a_bar_and_a_bar_is_used() -> None:
    bars: list[Any] = []

    class Kept(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, file=io.StringIO(), **kwargs)  # type: ignore[call-overload]
            bars.append(self)

    small(Kept)
    (made,) = bars
    assert (made.n, made.total, made.desc.strip(": ")) == (4, 4, "compare")
    mine = tqdm(file=io.StringIO())
    small(mine)
    assert (mine.n, mine.total) == (4, 4)
    mine.update(1)  # it is still open
    mine.close()


def test_what_shows_no_progress_is_refused() -> None:
    with pytest.raises(TypeError, match="tqdm"):
        small(3)


def test_an_exception_of_whoever_shows_progress_ends_the_work() -> None:
    class Enough(Exception):
        pass

    def follow(done: int, total: int, note: str) -> None:
        raise Enough

    start = time.monotonic()
    with pytest.raises(Enough):
        seawall.compare(designs="lb", progress=follow, **LONG)
    assert time.monotonic() - start < 5


def test_other_threads_run_meanwhile() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    before = counted
    start = time.monotonic()
    seawall.compare(workloads="hash", designs="lb", machine="desktop", ops=3000, crashes=0)
    seconds = time.monotonic() - start
    during = counted - before
    done.set()
    thread.join()
    assert during > 20 * seconds, (during, seconds)


INTERRUPTED = """
import seawall, signal
# Whoever starts the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    seawall.compare(workloads=["queue"], designs=["lb", "lbpp:epochs=2", "lbpp"], jobs=1, crashes=0,
                    machine="desktop", json="out.json", ops={ops},
                    progress=lambda done, total, note: print(done, flush=True))
except KeyboardInterrupt as error:
    partial = error.partial
    print("partial", partial is not None and len(partial), partial and partial.complete,
          type(error) is seawall.Interrupted, "; this exception's `partial` has" in str(error),
          flush=True)
"""


def interrupted(folder: Path, ops: int, wait_for: str) -> tuple[list[str], float]:
    """What a run prints that gets SIGINT when it has printed that, and how long it takes to end."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", INTERRUPTED.format(ops=ops)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != wait_for:
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    start = time.monotonic()
    lines = [line for line in process.stdout.read().splitlines() if line.startswith("partial")]
    seconds = time.monotonic() - start
    assert process.wait() == 0
    return lines, seconds


def test_ctrl_c_ends_the_work_within_a_second_and_there_is_nothing_to_keep(here: Path) -> None:
    lines, seconds = interrupted(here, 1 << 30, "0")
    assert lines == ["partial False None True False"]
    assert seconds < 2, seconds  # one second, on a computer that is busy
    assert not (here / "out.json").exists() and not (here / "out.json.partial").exists()


def test_what_was_done_before_ctrl_c_is_kept(here: Path) -> None:
    lines, seconds = interrupted(here, 10_000, "1")
    assert lines in (["partial 1 False True True"], ["partial 2 False True True"])
    assert seconds < 2, seconds
    assert (here / "out.json.partial").read_text().count("\n") in (1, 2)
