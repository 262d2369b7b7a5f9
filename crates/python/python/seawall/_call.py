"""How functions become commands: options as words, progress, Ctrl-C."""

from __future__ import annotations

import inspect
import numbers
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable, Optional, Protocol, Union

from . import _seawall
from ._programs import Command, all_typed, typed
from ._said import shown, text_of
from ._table import Table

Path = Union[str, "os.PathLike[str]"]
#: One name, names separated by commas, or several names.
Names = Union[str, Iterable[str]]


class Bar(Protocol):
    """What is used of a progress bar of tqdm, or of one that looks like it."""

    def update(self, n: int) -> object: ...
    def close(self) -> object: ...


#: How progress is shown: by a class of tqdm, by one of its bars, by a function that is called with
#: what is done, all there is (0 where that is not known) and a note; by the command's own bar
#: (``True``), or not at all (``False``). ``None``: by the own bar if standard error is a terminal.
Progress = Union[None, bool, Bar, Callable[..., Any]]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a command; ``partial`` has what it had done, or is ``None``."""

    def __init__(self, message: str, partial: Optional[Table]) -> None:
        super().__init__(message)
        self.partial = partial

    def __reduce__(self) -> tuple[type[Interrupted], tuple[object, ...]]:
        return Interrupted, (*self.args, self.partial)


class Follower:
    """Shows how far work has come, in whatever way the caller wants."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._name = name
        self._make = progress if isinstance(progress, type) else None
        self._bar: Any = None
        self._tell: Optional[Callable[[int, int, str], object]] = None
        if is_bar(progress) and self._make is None:
            self._bar = progress
        elif callable(progress) and self._make is None:
            self._tell = progress
        self._done = 0

    def __call__(self, done: int, total: int, note: str) -> None:
        if self._tell is not None:
            self._tell(done, total, note)
            return
        if self._bar is None and self._make is not None:
            self._bar = self._make(total=total or None, desc=self._name)
        if done < self._done or (total and getattr(self._bar, "total", total) != total):
            if hasattr(self._bar, "reset"):
                self._bar.reset(total=total or None)
                self._done = 0
        if note and hasattr(self._bar, "set_postfix_str"):
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(max(done - self._done, 0))
        self._done = done

    def close(self) -> None:
        """Ends a bar that was made here; one of the caller stays open."""
        if self._bar is not None and self._make is not None:
            self._bar.close()


def is_bar(progress: object) -> bool:
    return hasattr(progress, "update") and hasattr(progress, "close")


def follower(progress: Progress, name: str) -> tuple[Optional[Follower], bool]:
    """Who shows progress, and whether the command itself does."""
    if progress is None:
        return None, sys.stderr is not None and sys.stderr.isatty()
    if isinstance(progress, bool):
        return None, progress
    if callable(progress) or is_bar(progress):
        return Follower(progress, name), False
    raise TypeError(
        f"progress is {shown(progress)}; give tqdm, one of its bars, a function of three arguments "
        "(done, total, note), True or False"
    )


#: What can be given where an annotation has this type, and what it is called.
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((numbers.Integral,), "a whole number"),
    "float": ((numbers.Real,), "a number"),
    "str": ((str,), "a text"),
    "Literal": ((str,), "a text"),
    "Path": ((str, os.PathLike), "a path, or a text"),
    "Names": ((str, os.PathLike, Iterable), "a name, or several"),
    "Commands": (
        (str, Sequence, Mapping),
        "a command, as a text or a list of words, or a dictionary of commands by name",
    ),
    "Command": ((str, Sequence), "a command, as a text or a list of words"),
    "bool": ((), "True or False"),
}
#: The type in an annotation; that of `Union[bool, str]` is the second.
KIND = re.compile(r"\b(int|float|str|Literal|Path|Names|Commands?|bool(?!,))\b")

#: Parameters that are no options of a command.
NO_OPTIONS = {"progress", "executor", "client"}


def call(command: str, options: Mapping[str, Any]) -> Table:
    """Runs a command with the values of the parameters of its function."""
    return run(command, words_of(command, options), options["progress"])


def words_of(command: str, options: Mapping[str, Any]) -> list[str]:
    """What one would type behind a command for the values of the parameters of its function."""
    from . import _commands

    function = getattr(_commands, command)
    check_types(function, options)
    words: list[str] = []
    behind: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        value, is_list = options[name], parameter.annotation == "Names"
        if name in NO_OPTIONS or value is None:
            continue
        if is_list and value is not parameter.default and not isinstance(value, (str, os.PathLike)):
            value = list(value)
            if not value:
                raise _seawall.Error(f"{name} is empty: give a name, or leave it out")
        if parameter.annotation == "Optional[Commands]":
            words += [f"--{name}={one}" for one in all_typed(value)]
            continue
        if parameter.annotation == "Optional[Command]":
            value = typed(value)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            behind = _several(name, value) if is_list else [text_of(name, value)]
        elif value != parameter.default:
            words += _words_of(name, value, is_list)
    return [*words, "--", *behind] if behind else words


def check_types(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Refuses values that are not of the types of a function's parameters."""
    for name, parameter in inspect.signature(function).parameters.items():
        annotation, value = str(parameter.annotation), values[name]
        found = KIND.search(annotation)
        if value is None or value is parameter.default or found is None:
            continue
        types, what = KINDS[found[1]]
        takes_bool = "bool" in annotation
        is_one = isinstance(value, (*types, bool)) and not isinstance(value, (bytes, bytearray))
        if not is_one or isinstance(value, bool) and not takes_bool:
            what = f"{what}, True or False" if takes_bool and found[1] != "bool" else what
            raise TypeError(f"{name} is {shown(value)}; give {what}")


def _several(parameter: str, value: Names) -> list[str]:
    """The names that a parameter is given."""
    names = [value] if isinstance(value, (str, os.PathLike)) else list(value)
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"{parameter} has {shown(name)}, which is no name: give texts")
    return [text_of(parameter, name) for name in names]


def _words_of(name: str, value: Any, is_list: bool) -> list[str]:
    """The words that one would type for the option of a parameter."""
    flag = "--" + name.rstrip("_").replace("_", "-")
    if isinstance(value, bool):
        return [flag] if value else []
    if is_list:
        names = ",".join(_several(name, value))
        return [f"{flag}={names}"] if names else []
    return [f"{flag}={text_of(name, value)}"]


@contextmanager
def interruptible(name: str) -> Iterator[None]:
    """A part of a command that has nothing to show if it is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{name} was stopped before anything was finished", None) from None


def run(name: str, words: list[str], progress: Progress) -> Table:
    """Runs a command; its result, or the exception that ended it."""
    follow, show = follower(progress, name)
    try:
        with interruptible(name):
            outcome = _seawall.run(name, words, follow, show)
    finally:
        if follow is not None:
            follow.close()
    return finished(name, outcome)


def finished(name: str, outcome: _seawall.Outcome) -> Table:
    """The table of an outcome, unless somebody has stopped the command."""
    stopped_by = outcome.stopped_by
    if stopped_by is None:
        return Table(outcome)
    if not isinstance(stopped_by, KeyboardInterrupt):
        raise stopped_by
    if outcome.empty:
        raise Interrupted(f"{name} was stopped before anything was finished", None)
    partial = Table(outcome)
    # A note begins with that it was stopped.
    said = "; ".join(dict.fromkeys(note.removeprefix("stopped: ") for note in partial.notes))
    said = f"{said}; " if said else ""
    raise Interrupted(
        f"{name} was stopped: {said}this exception's `partial` has what was done", partial
    )
