"""Programs that `seawall cc` has compiled: their commands, and who starts their processes.

The command `seawall` starts itself for each run of a program. Here it is this interpreter, with the
module of this package and nothing else: so what runs programs is the same build as everything else.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Union

from . import _seawall
from ._said import shown, text_of

#: A command as one types it, or its words.
Command = Union[str, Sequence[Union[str, int, "os.PathLike[str]"]]]
#: A command, or several by the names of their programs.
Commands = Union[Command, Mapping[str, Command]]

#: Words that need no quotes.
PLAIN = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)

#: Loads the module from its file, and does what the words behind that say.
_SERVE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_seawall", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.serve(sys.argv[2:])
"""


def serve_here() -> None:
    """From now on this interpreter starts the processes of programs."""
    if not sys.executable:
        raise _seawall.Error(
            "this Python does not say which program it is (sys.executable is empty), so it cannot "
            "start processes of programs: set it to a Python interpreter of this version"
        )
    # The process starts itself once more, by this path: that of an environment would be lost.
    interpreter = os.path.realpath(sys.executable)
    module = str(_seawall.__file__)
    _seawall.serve_by([interpreter, "-I", "-S", "-B", "-c", _SERVE, module])


def typed(command: Command) -> str:
    """The command as one types it; its processes can be started then."""
    serve_here()
    if isinstance(command, str):
        return command
    for word in command:
        if not isinstance(word, (str, int, os.PathLike)):
            raise TypeError(f"a command has {shown(word)}; give texts, whole numbers and paths")
    words = [text_of("a word of the command", word) for word in command]
    if not words:
        raise _seawall.Error("a command has no words: give the program and its arguments")
    # Braces mean nothing in such a command, and {pool} is often there.
    return " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


def all_typed(commands: Commands) -> list[str]:
    """Each command as one types it, with the name before it where it has one."""
    if not isinstance(commands, Mapping):
        return [typed(commands)]
    if not commands:
        raise _seawall.Error("there is no command: give one, or several by their names")
    return [f"{name}={typed(command)}" for name, command in commands.items()]
