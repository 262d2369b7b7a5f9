"""What a command found: records with the names of its JSON, and the table that it prints."""

from __future__ import annotations

import html
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Union, overload

from ._files import columns_of, library, lines_of, parquet_writer, split
from ._plot import plot
from ._seawall import Error

if TYPE_CHECKING:
    import pandas
    import polars
    from matplotlib.axes import Axes

    from ._seawall import Outcome

Record = dict[str, Any]


class Records(Sequence[Record]):
    """Records in their order: a sequence of dictionaries whose keys are the names of the JSON.

    Units are part of the names, or those of the command's documentation.
    """

    def __init__(self, lines: Iterable[str], columns: Sequence[str] = ()) -> None:
        self._lines = list(lines)
        self._records: list[Record] = [json.loads(line) for line in self._lines]
        #: Those of the records that these were chosen from.
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which records first have them."""
        return columns_of(self._records) or list(self._columns)

    def to_json(self) -> str:
        """The records as JSON Lines, the same bytes as the command's ``--json`` writes."""
        return "".join(f"{line}\n" for line in self._lines)

    def to_dicts(self) -> list[Record]:
        """The records as dictionaries, which are the caller's to change."""
        records: list[Record] = [json.loads(line) for line in self._lines]
        return records

    def to_pandas(self, *, flat: bool = False) -> pandas.DataFrame:
        """A ``pandas.DataFrame``, which needs pandas.

        Columns with dictionaries stay as they are, or become one column for each of their keys with
        ``flat=True``: ``stalls`` becomes ``stalls.busy``, ``stalls.fence`` and so on.
        """
        package = library("pandas", "to_pandas")
        if flat:
            frame: pandas.DataFrame = package.json_normalize(self.to_dicts())
        else:
            frame = package.DataFrame(self.to_dicts(), columns=self.columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A ``polars.DataFrame``, which needs polars; dictionaries become structs."""
        package = library("polars", "to_polars")
        schema = None if self._records else self.columns
        frame: polars.DataFrame = package.DataFrame(
            self.to_dicts(), schema, infer_schema_length=None
        )
        return frame

    def where(self, keep: Callable[[Record], object]) -> Records:
        """The records of which ``keep`` is true: ``where(lambda it: it["design"] == "lb")``."""
        if not callable(keep):
            raise TypeError(f"keep is {keep!r}; give a function of a record")
        both = zip(self._lines, self._records)
        return Records((line for line, record in both if keep(record)), self.columns)

    def plot(
        self, x: str, y: str, *, by: Optional[str] = None, ax: Optional[Axes] = None
    ) -> Axes:
        """Draws column ``y`` over column ``x``, which needs matplotlib; returns the axes.

        Where ``x`` is a number there is a curve for each value of column ``by``, else there are
        bars. ``parameters.stores`` is the key ``stores`` of the dictionaries in ``parameters``.
        Records without one of the values are left out. Raises ``Error`` where no record has a
        column, and where two records would have one place: ``where`` chooses some.

        :param ax: Axes of matplotlib to draw into [default: new ones]
        """
        return plot(self._records, x, y, by, ax)

    def to_parquet(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes a Parquet file, whole or not at all, by polars or pyarrow: one of them is needed.

        Dictionaries become structs, in which a key that a record does not have is null.
        """
        write = parquet_writer()
        part = Path(f"{os.fspath(path)}.new")
        try:
            write(self._records, part)
            os.replace(part, path)
        except OSError as error:
            raise Error(f"cannot write {os.fspath(path)}: {error}") from error
        finally:
            part.unlink(missing_ok=True)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Record, list[Record]]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Records):
            return self._records == other._records
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} records of {', '.join(self.columns)}>"


def read(path: Union[str, os.PathLike[str]], /) -> Records:
    """The records of a file: of JSON Lines, as commands write them, or a Parquet file."""
    return Records(lines_of(path))


class Kept:
    """What a command found, as a copy that another process can have."""

    def __init__(self, outcome: Union[Outcome, Kept]) -> None:
        self.json: str = outcome.json
        self.notes: list[str] = outcome.notes
        self.found: bool = outcome.found
        self.complete: bool = outcome.complete
        self._text, self._plots = outcome.text(), outcome.plots()

    def text(self, columns: Optional[int] = None) -> str:
        """What the command prints, whole however wide a terminal is."""
        return self._text

    def plots(self) -> list[tuple[str, str]]:
        return self._plots


class Table(Records):
    """The records of a command, in its order; printed, it is the command's own table.

    It can be pickled, and so be the result of a task in another process.
    """

    def __init__(self, outcome: Union[Outcome, Kept]) -> None:
        super().__init__(split(outcome.json))
        self._outcome = outcome

    def __reduce__(self) -> tuple[Callable[[Kept], Table], tuple[Kept]]:
        return Table, (Kept(self._outcome),)

    @property
    def text(self) -> str:
        """What the command prints."""
        return self._outcome.text()

    @property
    def notes(self) -> list[str]:
        """What the command says beside its results, such as where a file went."""
        return self._outcome.notes

    @property
    def found(self) -> bool:
        """Whether something is wrong with what was run: where the command exits with 1."""
        return self._outcome.found

    @property
    def complete(self) -> bool:
        """Whether everything was run; if not, the command was stopped early."""
        return self._outcome.complete

    def plots(self) -> dict[str, str]:
        """The plots of the command as SVG, by the names of their files; one alone is ``plot.svg``."""
        return {name or "plot.svg": svg for name, svg in self._outcome.plots()}

    def __repr__(self) -> str:
        return self._outcome.text(_terminal_columns()).rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def _terminal_columns() -> Optional[int]:
    """The width of the terminal on which tables are printed, if they are printed on one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns
