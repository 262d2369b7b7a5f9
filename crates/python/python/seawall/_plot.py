"""A chart of records by matplotlib, which is not needed for anything else."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Optional

from ._files import library
from ._seawall import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Record = dict[str, Any]
#: How much of the place of a group its bars take.
BARS = 0.8


def plot(
    records: Sequence[Record], x: str, y: str, by: Optional[str], ax: Optional[Axes]
) -> Axes:
    """Curves where `x` is a number in all records, and groups of bars where it is not."""
    if ax is not None and not hasattr(ax, "bar"):
        raise TypeError(f"ax is {ax!r}; give axes of matplotlib, as `plt.subplots()[1]`")
    if not records:
        raise Error("there are no records to draw")
    for name in [x, y] if by is None else [x, y, by]:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no column; give the name of one")
        _check(records, name)
    points = _points(records, x, y, by)
    if not points:
        raise Error(f"no record has a number {y!r} beside {x!r}: there is nothing to draw")
    if ax is None:
        ax = library("matplotlib.pyplot", "plot").subplots()[1]
    if all(_is_number(at) for curve in points.values() for at, _ in curve):
        for name, curve in points.items():
            curve.sort()
            ax.plot(*zip(*curve), marker="o", label=name)
    else:
        _bars(ax, points)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if by is not None:
        ax.legend(title=by)
    return ax


def _check(records: Sequence[Record], name: str) -> None:
    """Rejects a column that no record has."""
    if any(_value(record, name) is not None for record in records):
        return
    known = _names(records)
    similar = get_close_matches(name, known, 1)
    tip = f"\n  tip: a similar name exists: {similar[0]!r}" if similar else ""
    raise Error(f"no record has a column {name!r}; known: {', '.join(known)}{tip}")


def _names(records: Sequence[Record]) -> list[str]:
    """The columns of records, and the keys of the dictionaries in them."""
    names: dict[str, None] = {}
    for record in records:
        for name, value in record.items():
            inner = [f"{name}.{key}" for key in value] if isinstance(value, dict) else [name]
            names.update(dict.fromkeys(inner))
    return list(names)


def _points(
    records: Sequence[Record], x: str, y: str, by: Optional[str]
) -> dict[str, list[tuple[Any, float]]]:
    """The points of each curve, of the records that have both values; one record each."""
    points: dict[str, list[tuple[Any, float]]] = {}
    drawn: dict[tuple[str, str], Record] = {}
    for record in records:
        at, value = _value(record, x), _value(record, y)
        if at is None or not _is_number(value):
            continue
        name = "" if by is None else str(_value(record, by))
        other = drawn.setdefault((name, str(at)), record)
        if other is not record:
            place = f"{x}={at}" if by is None else f"{x}={at} and {by}={name}"
            raise Error(
                f"several records have {place}; they differ in {_difference(record, other)}: "
                "choose some by `where`, or another column for `by`"
            )
        points.setdefault(name, []).append((at, value))
    return points


def _difference(one: Record, other: Record) -> str:
    """The first column with a name or a setting in which two records differ."""
    names = [it for it in _names([one, other]) if _value(one, it) != _value(other, it)]
    words = [it for it in names if isinstance(_value(one, it), str)]
    return (words or names or ["nothing"])[0]


def _bars(ax: Axes, points: dict[str, list[tuple[Any, float]]]) -> None:
    groups = list(dict.fromkeys(str(at) for curve in points.values() for at, _ in curve))
    width = BARS / len(points)
    for number, (name, curve) in enumerate(points.items()):
        shift = (number - (len(points) - 1) / 2) * width
        places = [groups.index(str(at)) + shift for at, _ in curve]
        ax.bar(places, [value for _, value in curve], width, label=name)
    ax.set_xticks(range(len(groups)), groups)


def _value(record: Record, column: str) -> Any:
    """The value of a column, or of a key of a dictionary in it: ``parameters.stores``."""
    value: Any = record
    for key in column.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
