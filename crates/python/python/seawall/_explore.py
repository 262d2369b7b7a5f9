"""Explorations on the workers of an executor or of a Dask cluster.

The parts of an exploration are tasks: each is the work of one of its searchers. Put together, they
are what one process finds, with the same counts, whoever did them and in whatever order.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from io import BufferedRandom
from typing import Any, Optional

from . import _points, _seawall
from ._call import Interrupted, call, finished, follower, interruptible, words_of
from ._crew import Crew, check_workers, crew_of
from ._said import path_of
from ._table import Table

#: Seconds after which Ctrl-C is looked at, and the workers of a cluster are.
WAIT_SECONDS = 0.1


def explore(options: Mapping[str, Any]) -> Table:
    """Explores with the values of the parameters of the function."""
    executor, client = options["executor"], options["client"]
    if executor is None and client is None:
        return call("explore", options)
    check_workers(executor, client)
    path = options["resume"]
    # Without workers there is a limit of time by default.
    seconds = 0 if options["seconds"] is None else options["seconds"]
    words = words_of("explore", {**options, "seconds": seconds, "resume": None})
    with interruptible("explore"):
        count = _seawall.explore_parts(words)
        kept = Kept(None if path is None else path_of("resume", path), words, count)
    follow, show = follower(options["progress"], "explore")
    try:
        with crew_of(_points.run_part, kept.left(), executor, client) as crew:
            _give_all(crew, kept, count, words, follow)
        outcome = _seawall.explore_together(words, list(kept.parts.values()), None, show)
    except KeyboardInterrupt:
        said = f"{len(kept.parts)} of {count} parts were done; {kept.left()}"
        raise Interrupted(f"explore was stopped: {said}", None) from None
    finally:
        kept.close()
        if follow is not None:
            follow.close()
    return finished("explore", outcome)


def _give_all(crew: Crew, kept: Kept, count: int, words: list[str], follow: Any) -> None:
    """Gives out all parts that are left, in order."""
    has_program = any(word.startswith("--program=") for word in words)
    head = {"build": _seawall.build(), "words": words, "has_program": has_program}
    left = [part for part in range(count) if part not in kept.parts]
    while len(kept.parts) < count:
        while left and crew.has_room:
            part = left.pop(0)
            crew.give((str(part), (json.dumps({**head, "part": part}),)))
        answer = crew.next(WAIT_SECONDS)
        if answer is None:
            continue
        text, key = answer
        kept.add(int(key), text)
        if follow is not None:
            follow(len(kept.parts), count, f"part {key}")


class Kept:
    """The parts that are done, and the file that they are kept in, if there is one.

    Its first line says of what they are. A last line that was cut short is written again. A file
    that does not begin like this is not touched, and one exploration at a time has the file.
    """

    def __init__(self, path: Optional[str], words: list[str], count: int) -> None:
        self.parts: dict[int, str] = {}
        self._path = path
        self._file: Optional[BufferedRandom] = None
        if path is None:
            return
        head = json.dumps({"seawall_explore_parts": words, "build": _seawall.build()}) + "\n"
        try:
            self._file = file = _opened(path)
            *whole, torn = file.read().decode().split("\n")
            if whole[:1] != [head[:-1]] and not (not whole and head.startswith(torn)):
                raise _seawall.Error(
                    f"{path} does not hold parts of this exploration: name another file for "
                    "resume, or use the options and the build that it was made with"
                )
            for line in whole[1:]:
                part, found = _part_of(line, count)
                self.parts.setdefault(part, found)
            file.truncate(len("".join(f"{line}\n" for line in whole).encode()))
            if not whole:
                file.write(head.encode())
                file.flush()
        except (OSError, ValueError, RecursionError) as error:
            raise _seawall.Error(
                f"{path} cannot be used for resume ({error}): name another file"
            ) from error

    def add(self, part: int, text: str) -> None:
        """Takes a part that is done."""
        if part in self.parts:
            return
        self.parts[part] = text
        if self._file is not None:
            self._file.write(f'{{"part": {part}, "found": {text}}}\n'.encode())
            self._file.flush()

    def left(self) -> str:
        """What becomes of the parts that are done, if it is stopped."""
        if self._path is None:
            return "with resume=FILE the same call goes on from the parts that are done"
        return f"the same call goes on with the parts that are not in {self._path}"

    def close(self) -> None:
        """Leaves the file to others."""
        if self._file is not None:
            self._file.close()


def _opened(path: str) -> BufferedRandom:
    """The file, which is made if there is none, and is kept from others while it is open."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is no ordinary file")
    file = open(path, "a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError("another exploration has it") from None
    file.seek(0)
    return file


def _part_of(line: str, count: int) -> tuple[int, str]:
    """The number of a part that is done, and what it found."""
    noted = json.loads(line)
    part = noted.get("part") if isinstance(noted, dict) else None
    if type(part) is not int or not 0 <= part < count or not isinstance(noted.get("found"), dict):
        raise ValueError(f"{line[:40]!r} is no part of it")
    return part, json.dumps(noted["found"])
