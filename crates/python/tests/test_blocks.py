"""The owner of a transaction is its block: no other change joins it, none is lost without an error."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Optional

import pytest
import seawall

#: What a change beside a block that stands still is told.
BESIDE = r"x.pool stands in its block at .*test_blocks.py:\d+, and this is outside of that: let the"


@pytest.fixture
def pool(here: Path) -> Iterator[seawall.Pool]:
    with seawall.open("x.pool") as pool:
        yield pool


def changes_of(m: seawall.PoolMap) -> list[Callable[[], object]]:
    """Every call that changes a map."""
    return [
        lambda: m.__setitem__("k", b"plain"),
        lambda: m.__delitem__("k"),
        lambda: m.setdefault("new", b"plain"),
        lambda: m.update({"k": b"plain"}),
        lambda: m.clear(),
    ]


def changes(pool: seawall.Pool) -> list[Callable[[], object]]:
    """Every call that changes a pool that has the entry `k`."""
    m, n = pool["m"], pool.typed("n", int)
    m["k"] = b"before"
    n["k"] = 1

    def block() -> None:
        with pool.transaction():
            pass

    return [
        *changes_of(m),
        lambda: m.pop("k"),
        lambda: m.popitem(),
        lambda: n.__setitem__("k", 2),
        lambda: n.update(k=2),
        lambda: n.clear(),
        block,
    ]


def stands(pool: seawall.Pool, key: str = "g") -> Generator[int, None, None]:
    with pool.transaction():
        pool["m"][key] = b"1"
        yield 1
        pool["m"][key] = b"2"


@pytest.mark.parametrize("number", range(11))
def test_no_change_joins_a_block_that_a_generator_has_left_standing(
    number: int, pool: seawall.Pool
) -> None:
    change = changes(pool)[number]
    generator = stands(pool)
    next(generator)
    with pytest.raises(seawall.Error, match=BESIDE):
        change()
    assert dict(pool["m"].items()) == {b"k": b"before"} and len(pool["m"]) == 1
    assert "g" not in pool["m"] and list(pool) == ["m", "n"], "what is seen is what is committed"
    generator.close()
    change()


def test_a_generator_that_goes_on_makes_its_changes_and_one_that_is_dropped_makes_none(
    pool: seawall.Pool,
) -> None:
    assert list(stands(pool)) == [1] and pool["m"]["g"] == b"2"
    for _ in stands(pool, "dropped"):
        break
    gc.collect()
    pool["m"]["plain"] = b"1"
    assert "dropped" not in pool["m"]


def test_a_generator_may_go_on_in_another_thread_or_end_there(pool: seawall.Pool) -> None:
    first, second = stands(pool), stands(pool, "h")
    with ThreadPoolExecutor(1) as executor:
        next(first)
        assert executor.submit(list, first).result() == [] and pool["m"]["g"] == b"2"
        next(second)
        executor.submit(second.close).result()
    pool["m"]["plain"] = b"1"
    assert "h" not in pool["m"]


def test_tasks_of_asyncio_do_not_share_a_block(pool: seawall.Pool) -> None:
    m = pool["m"]

    async def first() -> None:
        with pool.transaction() as tx:
            m["x"] = b"1"
            await asyncio.sleep(0)
            m["x"] = b"2"
            await helper(tx)
            raise ZeroDivisionError

    async def helper(tx: seawall.Transaction) -> None:
        m["awaited"] = b"1"
        await asyncio.create_task(task(tx))
        assert m["task"] == b"1"

    async def task(tx: seawall.Transaction) -> None:
        with pytest.raises(seawall.Error, match=BESIDE):
            m["task"] = b"1"
        tx["m"]["task"] = b"1"
        assert "x" in tx["m"] and "x" not in m

    async def second() -> None:
        with pytest.raises(seawall.Error, match=BESIDE):
            m["y"] = b"1"
        with pytest.raises(seawall.Error, match=BESIDE), pool.transaction():
            pass

    async def both() -> None:
        ended = await asyncio.gather(first(), second(), return_exceptions=True)
        assert [type(it) for it in ended] == [ZeroDivisionError, type(None)]

    asyncio.run(both())
    assert len(m) == 0
    m["y"] = b"1"


def test_a_block_is_that_of_whoever_enters_a_context_manager(pool: seawall.Pool) -> None:
    @contextlib.contextmanager
    def made() -> Iterator[None]:
        pool["m"]["no block yet"] = b""
        with pool.transaction():
            pool["m"]["before"] = b""
            yield
            pool["m"]["after"] = b""

    @contextlib.asynccontextmanager
    async def made_async() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        with made():
            await asyncio.sleep(0)
            yield

    class Session:
        def __enter__(self) -> None:
            self.block = pool.transaction()
            self.block.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.block.__exit__(*error)

    @contextlib.contextmanager
    def nested() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(Session())
            yield

    @made()
    def decorated() -> None:
        pool["m"]["in"] = b""

    def plain(block: Any) -> None:
        with block():
            pool["m"]["in"] = b""
            inner(block)

    def inner(block: Any) -> None:
        with pytest.raises(seawall.Error, match="already"), block():
            pass
        pool["m"]["called"] = b""
        raise ZeroDivisionError

    async def asynchronous() -> None:
        async with made_async(), contextlib.AsyncExitStack():
            pool["m"]["in"] = b""
            await asyncio.sleep(0)
            inner(made)

    for block in (made, Session, nested, pool.transaction):
        pool["m"].clear()
        with pytest.raises(ZeroDivisionError):
            plain(block)
        assert set(pool["m"]) <= {b"no block yet"}
    with pytest.raises(ZeroDivisionError):
        asyncio.run(asynchronous())
    assert list(pool["m"]) == [b"no block yet"]
    decorated()
    assert set(pool["m"]) == {b"no block yet", b"before", b"in", b"after"}


@pytest.mark.parametrize("is_context_manager", [False, True])
def test_a_context_manager_stands_where_the_generator_that_entered_it_stands(
    is_context_manager: bool, pool: seawall.Pool
) -> None:
    @contextlib.contextmanager
    def made() -> Iterator[None]:
        with pool.transaction():
            yield

    def generator() -> Iterator[int]:
        with made() if is_context_manager else contextlib.ExitStack() as stack:
            if stack is not None:
                stack.enter_context(pool.transaction())
            pool["m"]["g"] = b"1"
            yield 1

    standing = generator()
    next(standing)
    with pytest.raises(seawall.Error, match=BESIDE):
        pool["m"]["plain"] = b"1"
    assert list(standing) == [] and pool["m"]["g"] == b"1"


def test_whoever_is_handed_a_transaction_changes_it_from_anywhere_until_it_is_over(
    pool: seawall.Pool,
) -> None:
    def given() -> Iterator[seawall.Transaction]:
        with pool.transaction() as tx:
            yield tx

    standing = given()
    tx = next(standing)
    tx["m"]["here"] = b"1"
    with ThreadPoolExecutor(1) as executor:
        executor.submit(tx.typed("n", int).update, there=2).result()
    assert tx["m"]["here"] == b"1" and list(tx) == ["m", "n"] and len(pool) == 0
    assert list(standing) == [] and list(pool) == ["m", "n"]
    records = pool.typed("n", int)
    assert dict(records) == {b"there": 2}
    for use in (lambda: tx["m"].get("k"), tx.__enter__, lambda: tx["m"].update(k=b""), tx.keys().__len__):
        with pytest.raises(seawall.Error, match="is over|entered once"):
            use()
    with pytest.raises(seawall.Error, match="has not begun"):
        pool.transaction()["m"]["k"] = b"v"
    with pytest.raises(seawall.Error, match="not open"):
        pool.transaction().__exit__(None, None, None)


def test_a_block_that_awaits_a_thread_hands_it_the_transaction(pool: seawall.Pool) -> None:
    async def main() -> None:
        with pool.transaction() as tx:
            await asyncio.to_thread(tx["m"].__setitem__, "k", b"v")
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, pool["m"].get, "k") is None
            assert await loop.run_in_executor(None, tx["m"].get, "k") == b"v"

    asyncio.run(main())
    assert pool["m"]["k"] == b"v"


def test_a_block_that_fails_as_it_ends_is_over(pool: seawall.Pool) -> None:
    with seawall.open("small.pool", bytes_max=1 << 20) as small:
        with pytest.raises(seawall.Error, match="(?i)full|room"), small.transaction():
            small["m"]["k"] = bytes(1 << 22)
        with small.transaction():
            small["m"]["k"] = b"v"
        with pytest.raises(seawall.Error, match="small.pool is closed"), small.transaction():
            small["m"]["k"] = b"w"
            small.close()
        with pytest.raises(seawall.Error, match="small.pool is closed"), small.transaction():
            pass
    with seawall.open("small.pool") as small:
        assert small["m"]["k"] == b"v"


def test_an_error_in_a_statement_of_a_block_leaves_the_others_of_the_block(
    pool: seawall.Pool,
) -> None:
    m = pool["m"]
    with pool.transaction():
        m["k"] = b"v"
        with pytest.raises(seawall.Error, match="a key of 2000 bytes in the map 'm'"):
            m.update({"a": b"1", "x" * 2000: b"2"})
        with pytest.raises(TypeError):
            m.update([("b", b"1"), ("c", 2)])
    assert dict(m.items()) == {b"k": b"v"}


def test_a_transaction_that_is_dropped_in_its_block_says_what_is_lost(
    pool: seawall.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: said.append(str(it.exc_value)))

    @contextlib.contextmanager
    def made() -> Iterator[None]:
        with pool.transaction():
            yield

    def generator() -> Iterator[None]:
        with made():
            pool["m"]["k"] = b"v"
            yield

    for number, make in enumerate((pool.transaction, made), 1):
        dropped: Any = make()
        dropped.__enter__()
        pool["m"]["k"] = b"v"
        dropped = None
        pool["m"]["plain"] = b"1"
        assert dict(pool["m"].items()) == {b"plain": b"1"}
        assert len(said) == number
        assert "dropped before its block was left, and 1 changes with it" in said[-1]
    for _ in generator():
        break
    gc.collect()
    assert len(said) == 2, "a generator that is dropped changes nothing"


def test_wherever_a_signal_ends_a_block_a_change_after_it_is_kept_or_refused(
    pool: seawall.Pool,
) -> None:
    m = pool["m"]

    def one(at: int) -> bool:
        """Whether the event of that number was there, at which the signal came."""
        left = at

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal left
            if "weakref" in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes = True
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        interrupted = False
        try:
            sys.settrace(trace)
            with pool.transaction():
                m["a"] = m["b"] = b"%d" % at
            sys.settrace(None)
        except KeyboardInterrupt:
            interrupted = True
            m["plain"] = b"%d" % at
            assert m["plain"] == b"%d" % at
        finally:
            sys.settrace(None)
        assert m.get("a") == m.get("b")
        return interrupted

    at = 1
    while one(at):
        assert m["plain"] == b"%d" % at
        at += 1
    assert at > 10 and m["a"] == b"%d" % at


def test_a_handler_of_a_signal_may_change_the_pool_while_a_change_waits(pool: seawall.Pool) -> None:
    m, begun, over = pool["m"], threading.Event(), threading.Event()

    def hold() -> None:
        with pool.transaction():
            begun.set()
            over.wait()

    def handler(number: int, frame: Optional[FrameType]) -> None:
        over.set()
        m["handler"] = b"1"

    before = signal.signal(signal.SIGALRM, handler)
    try:
        thread = threading.Thread(target=hold)
        thread.start()
        begun.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        m["main"] = b"1"
    finally:
        signal.signal(signal.SIGALRM, before)
        thread.join()
    assert dict(m.items()) == {b"handler": b"1", b"main": b"1"}


def test_a_signal_ends_a_wait_and_leaves_the_turn_to_others(pool: seawall.Pool) -> None:
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with pool.transaction():
            begun.set()
            over.wait()

    def handler(number: int, frame: Optional[FrameType]) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        thread = threading.Thread(target=hold)
        thread.start()
        begun.wait()
        for wait in changes_of(pool["m"]):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(KeyboardInterrupt):
                wait()
    finally:
        signal.signal(signal.SIGALRM, before)
        over.set()
        thread.join()
    pool["m"]["k"] = b"v"
    assert dict(pool["m"].items()) == {b"k": b"v"}


def test_what_a_caller_is_called_back_from_a_change_changes_the_pool_by_itself(
    pool: seawall.Pool,
) -> None:
    m = pool["m"]

    class Key(bytes):
        def __eq__(self, other: object) -> bool:
            m["eq"] = b"1"
            return True

        def __hash__(self) -> int:
            m["hash"] = b"1"
            return 1

    class Name(str):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def encode(self, *_: object) -> bytes:
            return b"another"

    def pairs() -> Iterator[tuple[str, bytes]]:
        for number in range(3):
            m["%d of pairs" % number] = b"1"
            yield str(number), b"2"
        raise ZeroDivisionError

    with pool.transaction():
        m[Key(b"one")] = b"1"
        m[Key(b"two")] = b"2"
        m[Name("three")] = b"3"
        pool[Name("other")]["k"] = b"4"
    assert m["one"] == b"1" and m["two"] == b"2" and m["three"] == b"3" and len(m) == 3
    assert pool["other"]["k"] == b"4"
    with pytest.raises(ZeroDivisionError):
        m.update(pairs())
    assert len(m) == 6 and "0" not in m


ENDS = """
import contextlib, sys, threading, seawall
pool = seawall.open("x.pool")
pool["m"]["plain"] = b"1"
def stands():
    with pool.transaction() as tx:
        pool["m"]["lost"] = b"1"
        yield tx
{}
"""


@pytest.mark.parametrize(
    "end",
    [
        "it = stands(); next(it)",
        "it = [stands()]; it.append(it); next(it[0])",
        "it = stands(); next(it); del pool",
        "it = stands(); next(it); sys.exit(0)",
        "it = stands(); t = threading.Thread(target=next, args=(it,)); t.start(); t.join()",
        "threading.Thread(target=lambda: [None for _ in stands()], daemon=True).start()",
        "s = contextlib.ExitStack(); s.enter_context(pool.transaction())",
    ],
)
def test_an_interpreter_that_ends_with_an_open_block_ends_at_once(end: str, here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS.format(end)], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "panic" not in done.stderr
    with seawall.open("x.pool") as pool:
        assert pool["m"]["plain"] == b"1"


def test_whoever_waits_for_long_is_told_for_what(pool: seawall.Pool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(1) as executor, pool.transaction():
            waits = executor.submit(pool["m"].__setitem__, "k", b"v")
            with pytest.raises(RuntimeWarning, match=r"stands at .*test_blocks.py:\d+.*hand it `tx`"):
                waits.result()
    pool["m"]["k"] = b"v"
