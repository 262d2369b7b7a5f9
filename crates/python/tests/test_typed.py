"""Records in pools: of the type that the map has, by name, and whole after a crash."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import seawall
from conftest import killed


@dataclass
class User:
    name: str
    born: int
    height: float
    photo: bytes
    is_admin: bool = False


ADA = User("Ada \N{SPARKLES}", 1815, 1.6, b"\0\xff", True)


def test_records_are_there_again_with_their_types(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        users, visits = pool.typed("users", User), pool.typed("visits", int)
        with pool.transaction():
            users["ada"] = ADA
            visits["ada"] = 1
            assert users["ada"] == ADA and len(users) == 1
        users["grace"] = User("", -(1 << 63), 2, b"")
        visits["ada"] += (1 << 63) - 2
    with seawall.open("x.pool") as pool:
        users, visits = pool.typed("users", User), pool.typed("visits", int)
        assert dict(users) == {b"ada": ADA, b"grace": User("", -(1 << 63), 2.0, b"")}
        assert type(users["grace"].height) is float and visits["ada"] == (1 << 63) - 1
        assert list(pool) == ["users", "visits"] and "users" in pool and len(pool) == 2
        del users["ada"]
        assert "ada" not in users and "grace" in users and "User(name: str" in repr(users)
        for kind, value in ((bool, True), (float, 0.5), (str, "\N{SPARKLES}"), (bytes, b"\0")):
            kept = pool.typed(kind.__name__, kind)
            kept["k"] = value
            assert kept["k"] == value


@pytest.mark.parametrize(
    "change, named",
    [
        ({"name": b"Ada"}, r"User.name is a str, and b'Ada' is a bytes"),
        ({"born": "1815"}, r"User.born is an int, and '1815' is a str"),
        ({"born": True}, r"User.born is an int, and True is a bool"),
        ({"is_admin": 1}, r"User.is_admin is a bool"),
        ({"height": "tall"}, r"User.height is a float"),
        ({"photo": None}, r"User.photo is a bytes, and None is a NoneType"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(
    change: dict[str, Any], named: str, here: Path
) -> None:
    with seawall.open("x.pool") as pool:
        users = pool.typed("users", User)
        with pytest.raises(TypeError, match=named):
            users["ada"] = User(**{**ADA.__dict__, **change})
        with pytest.raises(TypeError, match="a record is a User"):
            users["ada"] = "Ada"  # type: ignore[assignment]
        with pytest.raises(OverflowError, match="User.born is 92233"):
            users["ada"] = User("", 1 << 63, 0.0, b"")
        with pytest.raises(OverflowError, match="User.born is an int that is too long, and 64"):
            users["ada"] = User("", 10**5000, 0.0, b"")
        with pytest.raises(TypeError, match="User.name is a str, and an int that is too long is an"):
            users["ada"] = User(10**5000, 1, 0.0, b"")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="value is an int, and 1.5 is a float"):
            pool.typed("n", int)["k"] = 1.5  # type: ignore[assignment]
        assert len(pool) == 0


def test_types_that_no_record_has_are_refused(here: Path) -> None:
    @dataclass
    class Tagged:
        tags: list[str]

    with seawall.open("x.pool") as pool:
        with pytest.raises(TypeError, match=r"Tagged.tags is list\[str\]: a field is bool, int"):
            pool.typed("x", Tagged)
        with pytest.raises(TypeError, match="a dataclass or bool, int"):
            pool.typed("x", dict)


def test_a_map_of_another_type_is_refused_unless_it_is_empty(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        users = pool.typed("users", User)
        users["ada"] = ADA
        holds = r"holds User\(name: str, born: int, .*, and not int: open it as that"
        with pytest.raises(seawall.Error, match=holds):
            pool.typed("users", int)
        with pytest.raises(seawall.Error, match="bytes are none: change it by Pool.typed"):
            pool["users"]["ada"] = b"Ada"
        assert isinstance(pool["users"]["ada"], bytes)
        pool["plain"]["k"] = b"v"
        with pytest.raises(seawall.Error, match="'plain' holds bytes without a type"):
            pool.typed("plain", int)
        with pytest.raises(seawall.Error, match="map of the types of the others"):
            pool["seawall.types"]
        users.clear()
        numbers = pool.typed("users", int)
        numbers["one"] = 1
        with pytest.raises(seawall.Error, match="holds int, and not User"):
            users["ada"] = ADA
        assert dict(numbers) == {b"one": 1}
        numbers.clear()
        pool["users"]["ada"] = b"bytes again"


def test_a_map_of_bytes_again_has_no_type(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        numbers = pool.typed("n", int)
        numbers["one"] = 1
        del numbers["one"]
        pool["n"]["x"] = b"bytes"
        pool["n"]["y"] = b"more"
        for use in (lambda: pool.typed("n", int), lambda: numbers.setdefault("z", 2)):
            with pytest.raises(seawall.Error, match="'n' holds bytes without a type, and not int"):
                use()
        with pytest.raises(ZeroDivisionError), pool.transaction():
            pool["n"].clear()
            numbers["one"] = 1
            with pytest.raises(seawall.Error, match="'n' holds int, and bytes are none"):
                pool["n"]["x"] = b"bytes"
            raise ZeroDivisionError
        assert dict(pool["n"].items()) == {b"x": b"bytes", b"y": b"more"}


@dataclass
class Doubled:
    n: int

    def __post_init__(self) -> None:
        self.n *= 2


@dataclass(frozen=True)
class Counted:
    name: str
    visits: int = field(default=0, init=False)


@dataclass
class Scaled:
    n: int
    by: InitVar[int]

    def __post_init__(self, by: int) -> None:
        self.n *= by


def test_a_record_is_read_as_it_was_written_or_is_not_written(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        doubled, counted = pool.typed("doubled", Doubled), pool.typed("counted", Counted)
        with pytest.raises(TypeError, match=r"Doubled\(n=4\) would be read as Doubled\(n=8\)"):
            doubled["k"] = Doubled(2)
        doubled["k"] = Doubled(0)
        with pytest.raises(TypeError, match="by"):
            pool.typed("scaled", Scaled)["k"] = Scaled(2, 3)
        record = Counted("Ada")
        object.__setattr__(record, "visits", 3)
        counted["ada"] = record
        assert counted["ada"] == record and counted["ada"].visits == 3
        with pytest.raises(ValueError, match="Counted.name is .* no text that UTF-8 has"):
            counted["x"] = Counted("\ud800")
        numbers = pool.typed("f", float)
        for number in (math.nan, math.inf, -0.0, 5e-324):
            numbers["k"] = number
            assert str(numbers["k"]) == str(number)


def test_bytes_that_are_no_record_are_named(here: Path) -> None:
    from seawall._typed import Schema

    schema = Schema(User)
    whole = schema.encode(ADA)
    assert schema.decode(whole, "") == ADA
    for bad in [*(whole[:end] for end in range(len(whole))), whole + b"\0"]:
        with pytest.raises(seawall.Error, match="'ada' is no User"):
            schema.decode(bad, "'ada'")


def test_the_type_comes_and_goes_with_the_first_record(here: Path) -> None:
    with seawall.open("x.pool") as pool:
        users = pool.typed("users", User)
        with pytest.raises(ZeroDivisionError), pool.transaction():
            users["ada"] = ADA
            raise ZeroDivisionError
        pool.typed("users", int)["one"] = 1
        assert dict(pool.typed("users", int)) == {b"one": 1}
    with seawall.open("small.pool", bytes_max=1 << 20) as pool:
        with pytest.raises(seawall.Error, match="(?i)full|room"):
            pool.typed("big", bytes)["k"] = bytes(1 << 22)
        pool.typed("big", int)
        assert pool._file.count(None, "seawall.types") == 0, "the type is there without its record"


KILLED = """
from dataclasses import dataclass
import seawall

@dataclass
class Account:
    owner: str
    cents: int

pool = seawall.open("x.pool")
one, other = pool.typed("one", Account), pool.typed("other", Account)
for number in range(1, 10**9):
    with pool.transaction():
        one["a"] = Account("x" * (number % 50), number)
        other["a"] = Account("y" * (number % 70), -number)
    print(number, flush=True)
"""


@dataclass
class Account:
    owner: str
    cents: int


def test_after_a_kill_records_are_whole_and_of_their_type(here: Path) -> None:
    for round in range(6):
        (here / "x.pool").unlink(missing_ok=True)
        printed = max(killed(KILLED, here, 1, 0.0013 * round))
        with seawall.open("x.pool") as pool:
            one, other = pool.typed("one", Account), pool.typed("other", Account)
            number = one["a"].cents
            assert number in (printed, printed + 1) and other["a"].cents == -number
            assert one["a"].owner == "x" * (number % 50)
            assert other["a"].owner == "y" * (number % 70)
