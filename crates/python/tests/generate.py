"""Writes python/seawall/_commands.py: the functions of the commands, from what those say.

Names, defaults and meanings of options are declared once, with each command. A test holds the
module to that, and writes it anew with SEAWALL_PYTHON_WRITE=1.
"""

from __future__ import annotations

import json
import keyword
import textwrap
from pathlib import Path
from typing import Any

from seawall import _seawall

PACKAGE = Path(__file__).parent.parent / "python" / "seawall"
MODULE = PACKAGE / "_commands.py"
WIDTH = 100

#: Written by hand, as it can also run elsewhere.
BY_HAND = {"sweep"}
#: Those whose parts may be done by workers, and who does that.
BY_WORKERS = {"explore": "_explore"}
WORKERS = {
    "executor": "Do its parts on this ``concurrent.futures.Executor``, or on those that a function "
    "makes: as many parts as searchers. What is found is the same; it goes to its end, however long "
    "that takes, and resume keeps the parts that are done.",
    "client": "Do its parts on the workers of this client's Dask cluster",
}
#: Names are listed by `seawall.list`, and a Dask cluster is given by its client.
LEFT_OUT = {("reproduce", "list"), ("sweep", "dask")}

HEAD = '''"""The commands as functions. Written by tests/generate.py: change the commands instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Optional, Union

from ._call import Names, Path, Progress
from ._call import call as _call
from ._crew import Workers
from ._explore import explore as _explore
from ._programs import Command, Commands
from ._table import Table

if TYPE_CHECKING:
    from distributed import Client
'''
TYPES = {
    "int": "int", "float": "float", "path": "Path", "str": "str", "bool": "bool",
    "command": "Command",
}  # fmt: skip
PROGRESS = "tqdm, one of its bars, or a function of three arguments (done, total, note)"

Option = dict[str, Any]


def commands() -> list[dict[str, Any]]:
    """All commands, without the options that the package leaves out."""
    described: list[dict[str, Any]] = json.loads(_seawall.describe())
    for command in described:
        name = command["name"]
        command["options"] = [
            option
            for option in command["options"]
            if (name, option["flag"]) not in LEFT_OUT
        ]
    return described


def name_of(option: Option) -> str:
    """The keyword of an option."""
    name: str = option["flag"] or option["id"]
    name = name.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def type_of(option: Option) -> str:
    """The type of an option, as an annotation."""
    if option["kind"] == "bool":
        return "bool"
    if option["is_list"]:
        return "Optional[Commands]" if option["kind"] == "command" else "Names"
    if option["values"]:
        inside = "Literal[" + ", ".join(f'"{value}"' for value in option["values"]) + "]"
    else:
        inside = "Path" if option["flag"] == "machine" else TYPES[option["kind"]]
    if option["is_value_optional"]:
        inside = f"Union[bool, {inside}]"
    return inside if option["default"] or option["is_required"] else f"Optional[{inside}]"


def default_of(option: Option) -> str:
    """The default of an option, as an expression; none if it is required."""
    if option["kind"] == "bool":
        return "False"
    default = option["default"]
    if option["is_list"] and option["kind"] != "command":
        return quoted(",".join(default)) if default else "()"
    if not default:
        return "" if option["is_required"] else "None"
    return str(default[0]) if option["kind"] in ("int", "float") else quoted(default[0])


def quoted(text: str) -> str:
    return json.dumps(text)


def is_positional(option: Option) -> bool:
    return not option["flag"]


def function(command: dict[str, Any]) -> str:
    """The definition of a command's function."""
    options = sorted(command["options"], key=lambda option: not is_positional(option))
    first = [option for option in options if is_positional(option)]
    others = [option for option in options if not is_positional(option)]
    lines = [f"\n\ndef {command['name']}("]
    lines += [f"    {parameter(option)}," for option in first]
    lines += ["    *,"]
    lines += [f"    {parameter(option)}," for option in others]
    by_workers = BY_WORKERS.get(command["name"])
    if by_workers:
        lines += ["    executor: Workers = None,", "    client: Optional[Client] = None,"]
    lines += ["    progress: Progress = None,", ") -> Table:"]
    lines += docstring(command, options)
    if by_workers:
        lines.append(f"    return {by_workers}(locals())")
    else:
        lines.append(f'    return _call("{command["name"]}", locals())')
    return "\n".join(lines)


def parameter(option: Option) -> str:
    default = default_of(option)
    text = f"{name_of(option)}: {type_of(option)}"
    text = f"{text} = {default}" if default else text
    if len(text) + 5 <= WIDTH:
        return text
    before, inside = text.split("Literal[")
    values, behind = inside.split("]", 1)
    lines = textwrap.wrap(values + ",", WIDTH - 12, break_on_hyphens=False)
    inside = "\n".join(f"            {line}" for line in lines)
    before, behind = before.replace("Optional[", "Optional[\n        "), behind.lstrip("]")
    return f"{before}Literal[\n{inside}\n        ]\n    ]{behind}"


def docstring(command: dict[str, Any], options: list[Option]) -> list[str]:
    lines = [f'    """{command["about"]}', ""]
    described = [(name_of(option), option["help"] or "") for option in options]
    by_workers = WORKERS.items() if command["name"] in BY_WORKERS else ()
    for name, text in [*described, *by_workers, ("progress", PROGRESS)]:
        text = f":param {name}: {text}".replace("\\", "\\\\")
        lines += textwrap.wrap(
            text, WIDTH, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
        )
    return [*lines, '    """']


def module() -> str:
    """The text of the module."""
    functions = [function(it) for it in commands() if it["name"] not in BY_HAND]
    return HEAD + "\n".join(functions) + "\n"


if __name__ == "__main__":
    MODULE.write_text(module())
