"""A pool is a mapping of mappings that keeps what was committed, whatever ends its process."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import random
import re
import signal
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Union

import pytest
import seawall
from conftest import killed

Key = Union[bytes, str]


def contents(pool: seawall.Pool) -> dict[str, dict[bytes, bytes]]:
    return {name: {bytes(k): v for k, v in pool[name].items()} for name in pool}  # type: ignore[arg-type]


def test_what_is_committed_is_there_again(here: Path) -> None:
    with seawall.open("users.pool") as pool:
        with pool.transaction():
            pool["users"]["ada"] = b"1815"
            pool["users"][b"\x00\xff"] = b""
            pool["visits"]["ada"] = b"1"
        pool["users"]["grace"] = b"1906"
        del pool["visits"]["ada"]
    with seawall.open("users.pool") as pool:
        assert contents(pool) == {"users": {b"\x00\xff": b"", b"ada": b"1815", b"grace": b"1906"}}
        assert pool["users"]["ada"] == b"1815" and len(pool["users"]) == 3
        assert "visits" not in pool and list(pool) == ["users"]
        pool["users"].clear()
        assert len(pool) == 0


def test_a_block_that_raises_changes_nothing_and_sees_itself_before(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        pool["a"]["kept"] = b"1"
        pool["a"]["gone"] = b"2"
        with pytest.raises(ZeroDivisionError), pool.transaction():
            pool["a"]["new"] = b"3"
            del pool["a"]["gone"]
            pool["b"]["k"] = b"4"
            assert contents(pool) == {"a": {b"kept": b"1", b"new": b"3"}, "b": {b"k": b"4"}}
            assert len(pool["a"]) == 2 and "gone" not in pool["a"]
            raise ZeroDivisionError
        assert contents(pool) == {"a": {b"kept": b"1", b"gone": b"2"}}


def test_it_is_a_dictionary_of_dictionaries_under_random_changes(here: Path) -> None:
    chosen = random.Random(1)
    model: dict[str, dict[bytes, bytes]] = {"a": {}, "a\x01": {}, "b": {}}
    with seawall.open("x.pool") as pool:
        for _ in range(200):
            with pool.transaction():
                for _ in range(chosen.randrange(6)):
                    name, key = chosen.choice(list(model)), bytes(chosen.choices(b"\0\1xy", k=2))
                    if chosen.random() < 0.6:
                        pool[name][key] = model[name][key] = chosen.randbytes(chosen.randrange(90))
                    elif key in model[name]:
                        del pool[name][key], model[name][key]
            wanted = {name: dict(sorted(of.items())) for name, of in model.items() if of}
            assert contents(pool) == wanted
            assert all(list(pool[name]) == sorted(of) for name, of in model.items())
            assert all(len(pool[name]) == len(of) for name, of in model.items())


KILLED = """
import seawall
pool = seawall.open("x.pool")
for number in range(1, 1 << 40):
    with pool.transaction():
        for key in range(100):
            pool["first"][str(key)] = b"%d" % number
            pool["second"][str(key)] = b"%d" % number
    print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_whole_transactions_and_all_that_ended(here: Path) -> None:
    for round in range(6):
        (here / "x.pool").unlink(missing_ok=True)
        printed = killed(KILLED, here, 10 + round, 0.0017 * (round + 1))
        with seawall.open("x.pool") as pool:
            found = contents(pool)
            values = set(found["first"].values()) | set(found["second"].values())
            assert len(values) == 1 and len(found["first"]) == len(found["second"]) == 100
            assert int(values.pop()) in (printed[-1], printed[-1] + 1)


def test_a_transaction_waits_for_that_of_another_thread(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        pool["n"]["n"] = b"0"

        def add() -> None:
            with pool.transaction():
                pool["n"]["n"] = b"%d" % (int(pool["n"]["n"]) + 1)

        threads = [threading.Thread(target=add) for _ in range(3)]
        with pool.transaction():
            for thread in threads:
                thread.start()
                thread.join(0.1)
                assert thread.is_alive()
            pool["n"]["n"] = b"10"
        for thread in threads:
            thread.join()
        assert pool["n"]["n"] == b"13"


def test_other_threads_see_what_is_committed_alone(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        seen: list[bool] = []
        with pool.transaction():
            pool["a"]["k"] = b"v"
            thread = threading.Thread(target=lambda: seen.append("k" in pool["a"]))
            thread.start()
            thread.join()
        assert seen == [False] and "k" in pool["a"]


def test_a_map_is_iterated_over_as_it_was_when_that_began(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        m, n = pool["m"], pool.typed("n", int)
        for key in "abc":
            m[key], n[key] = key.encode(), ord(key)
        iterators: list[Iterator[object]] = [iter(m), iter(m.items()), iter(n.values()), iter(pool)]
        for iterator in iterators:
            next(iterator)
        m.clear()
        n.update(a=1, b=2)
        rest = [list(iterator) for iterator in iterators]
        assert rest == [[b"b", b"c"], [(b"b", b"b"), (b"c", b"c")], [98, 99], ["n"]]


def test_each_call_is_one_transaction_whatever_other_threads_do(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        m, n = pool["m"], pool.typed("n", int)
        m.update((str(number), b"") for number in range(600))
        popped: list[Key] = []
        owners: list[int] = []

        def use(thread: int) -> None:
            for number in range(600):
                if m.pop(str(number), None) is not None:
                    popped.append(str(number).encode())
                n[str(thread)] = number
                assert len(set(pool["pairs"].values())) < 2
                pool["pairs"].update(a=b"%d" % thread, b=b"%d" % thread)
            with pytest.raises(KeyError):
                while True:
                    popped.append(m.popitem()[0])
            owners.append(n.setdefault("owner", thread))

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(popped) == sorted(str(number).encode() for number in range(600))
        assert len(set(owners)) == 1 and len(owners) == 8


def test_what_belongs_to_a_process_is_neither_copied_nor_pickled(here: Path) -> None:
    with seawall.open("x.pool") as pool, pool.transaction() as tx:
        for it in (pool, pool["m"], pool.typed("n", int), tx, tx["m"], [tx.typed("n", int)]):
            for act in (copy.copy, copy.deepcopy, pickle.dumps):
                if act is copy.copy and isinstance(it, list):
                    continue
                with pytest.raises(TypeError, match="no value that can be copied or pickled"):
                    act(it)


def test_odd_keys_values_and_names_are_taken_or_refused_by_name(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        m = pool["m"]
        values: list[Any] = [bytearray(b"1"), memoryview(b"1"), memoryview(b"1x")[::2]]
        for value in values:
            m["k"] = value
            assert type(m["k"]) is bytes and m["k"] == b"1"
        with pytest.raises(TypeError, match="a value is bytes, not an array"):
            m["k"] = array("B", b"1")  # type: ignore[assignment]
        no_keys: list[Any] = ["\ud800", 3, "x" * 5000]
        no_names: list[Any] = ["\ud800", 3, "a\0b", "seawall.types"]
        assert not any(key in m for key in no_keys) and not any(name in pool for name in no_names)
        with pytest.raises(UnicodeEncodeError):
            m["\ud800"] = b""
        with pytest.raises(seawall.Error, match="no text that UTF-8 has"):
            pool["\ud800"]
        for name, key in (("n" * 1791, b""), ("", b"k" * 1791), ("n", b"")):
            pool[name][key] = b"v"
            assert pool[name][key] == b"v" and name in pool
        for name, key in (("n" * 1792, b""), ("", b"k" * 1792), ("n" * 1791, b"k")):
            with pytest.raises(seawall.Error, match="at most 1791 bytes together"):
                pool[name][key] = b"v"
            assert name not in pool or key not in pool[name]


def test_what_cannot_be_done_names_the_thing_and_the_remedy(here: Path) -> None:
    (here / "no.pool").write_text("dear reader" * 1000)
    with pytest.raises(seawall.Error, match="no.pool"):
        seawall.open("no.pool")
    assert (here / "no.pool").read_text() == "dear reader" * 1000
    pool = seawall.open("x.pool", domain="page")
    assert pool.durability and isinstance(pool.survives_power_failure, bool)
    with pytest.raises(seawall.Error, match="x.pool is open in this process"):
        seawall.open("x.pool")
    with pytest.raises(seawall.Error, match="a key of 1787 bytes in the map 'users', .* have 1786"):
        pool["users"]["k" * 1787] = b""
    pool["users"]["k" * 1786] = b"long"
    assert pool["users"]["k" * 1786] == b"long"
    del pool["users"]["k" * 1786]
    with pool.transaction(), pytest.raises(seawall.Error, match="already"), pool.transaction():
        pass
    with pytest.raises(TypeError, match="bytes, not a str; encode it"):
        pool["a"]["k"] = "text"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="neither"):
        pool["a"][3] = b""  # type: ignore[index]
    with pytest.raises(seawall.Error, match="zero"):
        pool["a\0b"]
    with pytest.raises(KeyError):
        pool["a"]["nobody"]
    with pytest.raises(seawall.Error, match="domain"):
        seawall.open("y.pool", domain="sheet")  # type: ignore[arg-type]
    entries, records = pool["a"], pool.typed("b", int)
    with pytest.raises(TypeError, match="3 is no type"):
        pool.typed("c", 3)  # type: ignore[arg-type]
    pool.close()
    assert "closed" in repr(pool) and "closed" in repr(entries) and "closed" in repr(records)
    with pytest.raises(seawall.Error, match="x.pool is closed"):
        pool["a"]["k"] = b""
    with pytest.raises(TypeError, match="seawall.open"):
        seawall.Pool("users.pool")  # type: ignore[arg-type]


def test_a_full_pool_says_so_and_stays_as_it_was(here: Path) -> None:
    with seawall.open("x.pool", bytes_max=1 << 20) as pool:
        pool["a"]["k"] = b"v"
        with pytest.raises(seawall.Error, match="(?i)full|room"), pool.transaction():
            for number in range(100):
                pool["a"][str(number)] = bytes(1 << 16)
        assert contents(pool) == {"a": {b"k": b"v"}}


def calls_of(m: seawall.PoolMap) -> list[Callable[[], object]]:
    """Every call of a map that looks at its pool."""
    return [
        lambda: m["k"],
        lambda: m.__setitem__("k", b"w"),
        lambda: m.__delitem__("k"),
        lambda: "k" in m,
        lambda: list(m),
        lambda: list(m.items()),
        lambda: list(m.values()),
        lambda: len(m),
        lambda: m.clear(),
        lambda: m.pop("k"),
        lambda: m.popitem(),
        lambda: m.setdefault("k", b"w"),
        lambda: m.update(k=b"w"),
    ]


def calls(pool: seawall.Pool, tx: seawall.Transaction) -> list[Callable[[], object]]:
    """Every call that looks at a pool, or at a transaction of it."""
    other = pool.transaction()
    return [
        *calls_of(pool["m"]),
        *calls_of(tx["m"]),
        lambda: pool["other"],
        lambda: pool.typed("n", int),
        lambda: "m" in pool,
        lambda: list(pool),
        lambda: len(pool),
        lambda: list(tx),
        lambda: other.__enter__(),
        lambda: tx.__enter__(),
        lambda: tx.__exit__(None, None, None),
        lambda: pool.durability,
        lambda: pool.bytes_used,
        lambda: seawall.open("x.pool"),
    ]


def not_refused(calls: list[Callable[[], object]], texts: str) -> list[str]:
    """The calls that do not end with an error of such a text."""
    wrong = []
    for number, call in enumerate(calls):
        try:
            call()
            wrong.append(f"call {number} is not refused")
        except seawall.Error as error:
            if not re.search(texts, str(error)):
                wrong.append(f"call {number} says {error}")
    return wrong


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("owner", ["nobody", "this thread", "another thread"])
def test_a_fork_is_refused_before_it_waits(owner: str, here: Path) -> None:
    pool = seawall.open("x.pool")
    pool["m"]["k"] = b"v"
    begun, over = threading.Event(), threading.Event()

    def hold(tx: seawall.Transaction) -> None:
        with tx:
            begun.set()
            over.wait()

    tx = pool.transaction()
    thread = threading.Thread(target=hold, args=(tx,))
    with contextlib.ExitStack() as stack:
        if owner == "this thread":
            stack.enter_context(tx)
        elif owner == "another thread":
            thread.start()
            begun.wait()
        every = calls(pool, tx)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            wrong = not_refused(every, "another process|open elsewhere")
            shown = [repr(it) for it in (pool, pool._file, tx)]
            pool.close()
            shown.append(repr(pool))
            del pool, tx, every
            gc.collect()
            os.write(2, "\n".join(wrong).encode())
            os._exit(0 if not wrong and "another process" in shown[0] == shown[-1] else 1)
        status = os.waitpid(child, 0)[1]
        over.set()
    if thread.ident is not None:
        thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert dict(pool["m"].items()) == {b"k": b"v"}
    pool["m"]["after"] = b"1"
    pool.close()
