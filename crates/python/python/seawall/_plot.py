"""A chart of records by matplotlib, which is not needed for anything else."""

from __future__ import annotations

from collections.abc import Sequence
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


def _points(
    records: Sequence[Record], x: str, y: str, by: Optional[str]
) -> dict[str, list[tuple[Any, float]]]:
    """The points of each curve, of the records that have both values."""
    points: dict[str, list[tuple[Any, float]]] = {}
    for record in records:
        at, value = _value(record, x), _value(record, y)
        if at is not None and _is_number(value):
            name = "" if by is None else str(_value(record, by))
            points.setdefault(name, []).append((at, value))
    return points


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
