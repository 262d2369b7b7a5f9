"""Files of records: JSON Lines, and Parquet by the packages of the user."""

from __future__ import annotations

import importlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Optional, Union

from ._said import path_of
from ._seawall import Error

Record = dict[str, Any]


def is_parquet(path: Optional[str]) -> bool:
    return path is not None and path.endswith(".parquet")


def split(text: str) -> list[str]:
    """The lines of a text, which end with line feeds alone."""
    return [line for line in text.split("\n") if line]


def lines_of(path: Union[str, os.PathLike[str]]) -> list[str]:
    """The records of a file, as lines of JSON."""
    path = path_of("path", path)
    try:
        if is_parquet(path):
            return [json.dumps(record) for record in parquet_records(Path(path))]
        if stat.S_ISCHR(os.stat(path).st_mode):
            raise ValueError("it is a device, which may have no end")
        lines = split(Path(path).read_text())
        for number, line in enumerate(lines, 1):
            if not isinstance(json.loads(line), dict):
                raise ValueError(f"line {number} is no record")
        return lines
    except (OSError, ValueError, RecursionError) as error:
        raise Error(
            f"cannot read {path} ({error}): give a file of records, .jsonl or .parquet"
        ) from error


def parquet_writer() -> Callable[[Sequence[Record], Path], object]:
    """What writes records to a Parquet file, if there is something."""
    library = _library("writing")
    if library.__name__ == "polars":
        return lambda records, path: library.DataFrame(
            list(records), infer_schema_length=None
        ).write_parquet(path)

    def write(records: Sequence[Record], path: Path) -> None:
        columns = {name: [it.get(name) for it in records] for name in columns_of(records)}
        library.parquet.write_table(library.table(columns), path)

    return write


def parquet_records(path: Path) -> list[Record]:
    """The records of a Parquet file, if there is something that reads it."""
    library = _library("reading")
    if library.__name__ == "polars":
        records: list[Record] = library.read_parquet(path).to_dicts()
    else:
        records = library.parquet.read_table(path).to_pylist()
    return records


def _library(what: str) -> Any:
    """That of the user, whichever is there."""
    for name, part in (("polars", ""), ("pyarrow", ".parquet")):
        try:
            library = importlib.import_module(name)
            importlib.import_module(name + part)
        except ModuleNotFoundError:
            continue
        return library
    raise Error(f"{what} a Parquet file needs polars or pyarrow: pip install polars")


def library(name: str, what: str) -> Any:
    """A package that `what` needs, and that the user has or not."""
    package = name.split(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise Error(f"{what} needs {package}: pip install {package}") from error


def columns_of(records: Sequence[Record]) -> list[str]:
    """The names of the columns, in the order in which records first have them."""
    return list(dict.fromkeys(name for record in records for name in record))
