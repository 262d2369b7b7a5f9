"""What can be named: machines and designs, with other numbers, and the lists of all names."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Mapping
from typing import Any, Literal, Union

from . import _seawall
from ._said import shown, text_of

What = Literal[
    "designs", "workloads", "kernels", "machines", "figures", "models", "mixes", "corpus",
    "experiments", "litmus", "applications",
]


class Machine(str):
    """A machine as commands take it, ``NAME:KEY=VALUE:..``: a text with all of its numbers."""

    __slots__ = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """All numbers, as tables in tables; latencies are in cycles of a core."""
        parameters: dict[str, Any] = json.loads(_seawall.machine(self))
        return parameters

    def show(self) -> str:
        """A file of the machine (TOML) with the unit and the origin of each number."""
        return _seawall.show_machine(self)


class Design(str):
    """A persistency design as commands take it, ``NAME:KEY=VALUE:..``."""

    __slots__ = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The value of every parameter."""
        parameters: dict[str, Any] = json.loads(_seawall.design(self))["parameters"]
        return parameters

    @property
    def model(self) -> str:
        """The persistency model that it promises; ``none`` if it promises nothing."""
        return str(json.loads(_seawall.design(self))["model"])

    @property
    def about(self) -> str:
        """What it is, in a line."""
        return str(json.loads(_seawall.design(self))["about"])

    def show(self) -> str:
        """What it is and promises, with the meaning and the range of each parameter."""
        return _seawall.show_design(self)


def machine(name: Union[str, os.PathLike[str]], /, **changes: object) -> Machine:
    """The machine of that name, or in that ``.toml`` file, with other numbers.

    A number in a table is given as a dictionary: ``machine("micro15", ghz=2.5, llc={"banks": 16})``
    is ``micro15:ghz=2.5:llc.banks=16``. A changed number of cores changes the mesh with it.

    Raises ``Error`` where there is no such machine or number, or where the machine makes no sense.
    """
    name = text_of("name", name) if isinstance(name, os.PathLike) else name
    text = Machine(_with(name, changes))
    _seawall.machine(text)
    return text


def design(name: str, /, **changes: object) -> Design:
    """The design of that name with other parameters: ``design("lbpp", epochs=4)``.

    Raises ``Error`` where there is no such design or parameter, or its value is out of range.
    """
    text = Design(_with(name, changes))
    _seawall.design(text)
    return text


def list(what: What, /) -> builtins.list[str]:
    """The names of all designs, workloads, kernels, machines, figures, models, mixes, experiments,
    litmus tests, applications, or cases of the corpus."""
    if not isinstance(what, str):
        raise TypeError(f"{shown(what)} is no list; give a text, as 'designs'")
    return _seawall.names(text_of("what", what))


def _with(name: str, changes: Mapping[str, object]) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{shown(name)} is no name; give a text")
    try:
        settings = _settings("", changes)
    except RecursionError:
        raise _seawall.Error(f"the numbers of {name} are tables without an end") from None
    return text_of("name", ":".join([name, *settings]))


def _settings(before: str, changes: Mapping[str, object]) -> builtins.list[str]:
    settings: builtins.list[str] = []
    for key, value in changes.items():
        if isinstance(value, Mapping):
            settings += _settings(f"{before}{key}.", value)
        else:
            settings.append(f"{before}{key}={text_of(key, _toml(value))}")
    return settings


def _toml(value: object) -> str:
    if hasattr(value, "item"):
        value = value.item()  # a number of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    return text_of("a number", value)


