"""A pool is a mapping of mappings that keeps what was committed, whatever ends its process."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
import seawall
from conftest import killed


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


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_is_refused(here: Path) -> None:
    pool = seawall.open("x.pool")
    pool["a"]["k"] = b"v"
    child = os.fork()
    if child == 0:
        try:
            pool["a"]["k"] = b"w"
        except seawall.Error as error:
            os._exit(0 if "another process" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool["a"]["k"] == b"v"
    pool.close()
