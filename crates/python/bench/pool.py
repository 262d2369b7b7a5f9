"""Small durable changes: a pool beside `sqlite3`, `dbm` and `shelve`, on the same medium, in turns.

    python bench/pool.py FOLDER [CHANGES]

A change sets one of 1000 keys to 100 bytes, and is committed by itself; what it survives then stands
in the row. Rounds go in turns, and the best of three counts.
"""

from __future__ import annotations

import dbm
import os
import shelve
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Literal

import seawall

ROUNDS = 3
KEYS = [b"key-%012d" % number for number in range(1000)]
Change = Callable[[bytes, bytes], object]

DOMAINS: tuple[Literal["line"], Literal["page"]] = ("line", "page")
KILLED, POWER = "a killed process", "a power failure"
BETWEEN = "a power failure between two changes"
NOTHING = "nothing that is promised"


@contextmanager
def pool(folder: Path, domain: Literal["line", "page"]) -> Iterator[Change]:
    with seawall.open(folder / "x.pool", domain=domain) as opened:
        entries = opened["entries"]
        yield entries.__setitem__


@contextmanager
def sqlite(folder: Path, synchronous: str) -> Iterator[Change]:
    base = sqlite3.connect(folder / "x.db", isolation_level=None)
    base.execute("pragma journal_mode = wal")
    base.execute(f"pragma synchronous = {synchronous}")
    base.execute("create table if not exists entries (key blob primary key, value blob)")
    statement = "insert or replace into entries values (?, ?)"
    yield lambda key, value: base.execute(statement, (key, value))
    base.close()


@contextmanager
def a_dbm(folder: Path, is_synced: bool) -> Iterator[Change]:
    with dbm.open(str(folder / "x.dbm"), "c") as base:
        sync: Any = getattr(base, "sync", None)

        def change(key: bytes, value: bytes) -> None:
            base[key] = value
            if is_synced:
                sync()

        yield change


@contextmanager
def a_shelf(folder: Path, is_synced: bool) -> Iterator[Change]:
    with shelve.open(str(folder / "x.shelf"), "c") as base:

        def change(key: bytes, value: bytes) -> None:
            base[key.decode()] = value
            if is_synced:
                base.sync()

        yield change


def ways(folder: Path) -> list[tuple[str, str, Any]]:
    """What is measured: its name, what it survives, and how it is opened."""
    kind = dbm.whichdb(str(probe(folder))) or "dbm"
    has_sync = kind == "dbm.gnu"
    line, page = (survived(folder, domain) for domain in DOMAINS)
    between = BETWEEN if page == POWER else NOTHING
    rows: list[tuple[str, str, Any]] = [
        ("seawall, line", line, lambda at: pool(at, "line")),
        ("sqlite3, synchronous = off", KILLED, lambda at: sqlite(at, "off")),
        (kind, NOTHING, lambda at: a_dbm(at, False)),
        (f"shelve on {kind}", NOTHING, lambda at: a_shelf(at, False)),
        ("seawall, page", page, lambda at: pool(at, "page")),
        ("sqlite3, synchronous = full", page, lambda at: sqlite(at, "full")),
    ]
    if has_sync:
        rows.append((f"{kind}, sync()", between, lambda at: a_dbm(at, True)))
        rows.append((f"shelve on {kind}, sync()", between, lambda at: a_shelf(at, True)))
    return rows


def survived(folder: Path, domain: Literal["line", "page"]) -> str:
    """What a pool there survives; a medium that forgets does so for all of them."""
    with seawall.open(folder / f"{domain}.pool", domain=domain) as opened:
        return POWER if opened.survives_power_failure else KILLED


def probe(folder: Path) -> Path:
    with dbm.open(str(folder / "probe"), "c") as base:
        base[b"k"] = b"v"
    return folder / "probe"


def seconds_of(way: Any, folder: Path, changes: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as at, way(Path(at)) as change:
        for key in KEYS:
            change(key, bytes(100))
        start = time.perf_counter()
        for number in range(changes):
            change(KEYS[number * 7919 % len(KEYS)], b"%0100d" % number)
        return time.perf_counter() - start


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    changes = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        rows = ways(Path(scratch))
    best = [float("inf")] * len(rows)
    for _ in range(ROUNDS):
        for at, (_, _, way) in enumerate(rows):
            best[at] = min(best[at], seconds_of(way, folder, changes))
    print(f"{changes} changes of 100 bytes in {os.fspath(folder)}, best of {ROUNDS}")
    for (name, survives, _), seconds in zip(rows, best):
        print(f"{name:32} {1e6 * seconds / changes:10.1f} us a change   {survives}")


if __name__ == "__main__":
    main()
