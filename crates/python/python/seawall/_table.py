"""What a command found: records with the names of its JSON, and the table that it prints."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union, overload

if TYPE_CHECKING:
    import pandas
    import polars

    from ._seawall import Outcome

Record = dict[str, Any]


class Table(Sequence[Record]):
    """The records of a command, in its order; printed, it is the command's own table.

    It is a sequence of dictionaries whose keys are the names of the JSON records. Units are part of
    the names, or those of the command's documentation.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._records: list[Record] = [json.loads(line) for line in outcome.json.splitlines()]

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which records first have them."""
        return list(dict.fromkeys(name for record in self._records for name in record))

    @property
    def text(self) -> str:
        """What the command prints."""
        return self._outcome.text

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

    def to_json(self) -> str:
        """The records as JSON Lines, the same bytes as the command's ``--json`` writes."""
        return self._outcome.json

    def to_dicts(self) -> list[Record]:
        """The records as dictionaries, which are the caller's to change."""
        records: list[Record] = [json.loads(line) for line in self._outcome.json.splitlines()]
        return records

    def to_pandas(self, *, flat: bool = False) -> pandas.DataFrame:
        """A ``pandas.DataFrame``, which needs pandas.

        Columns with dictionaries stay as they are, or become one column for each of their keys with
        ``flat=True``: ``stalls`` becomes ``stalls.busy``, ``stalls.fence`` and so on.
        """
        import pandas

        if flat:
            return pandas.json_normalize(self.to_dicts())
        return pandas.DataFrame(self.to_dicts(), columns=self.columns)

    def to_polars(self) -> polars.DataFrame:
        """A ``polars.DataFrame``, which needs polars; dictionaries become structs."""
        import polars

        return polars.DataFrame(self.to_dicts(), infer_schema_length=None)

    def plots(self) -> dict[str, str]:
        """The plots of the command as SVG, by the names of their files; one alone is ``plot.svg``."""
        return {name or "plot.svg": svg for name, svg in self._outcome.plots()}

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Record, list[Record]]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Table):
            return self._records == other._records
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"
