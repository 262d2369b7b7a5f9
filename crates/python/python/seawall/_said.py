"""What messages say of values, whatever those are, and texts and paths as commands take them."""

from __future__ import annotations

import os
from typing import Optional, Union

from ._seawall import Error


def shown(value: object) -> str:
    """A value as a message shows it; one that has no end, or is too long for Python, by its type."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"{article(type(value))} that is too long"


def article(kind: type) -> str:
    return f"an {kind.__name__}" if kind.__name__[0] in "aeiou" else f"a {kind.__name__}"


def text_of(name: str, value: object) -> str:
    """A value as one types it."""
    try:
        text = os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)
        text.encode()
    except UnicodeEncodeError:
        raise Error(f"{name} is {shown(value)}, which is no text that UTF-8 has") from None
    except ValueError:
        raise Error(f"{name} is {shown(value)}") from None
    return text


def path_of(name: str, value: Union[str, os.PathLike[str]]) -> str:
    """A path, wherever it leads."""
    text = text_of(name, value)
    if "\0" in text:
        raise Error(f"{name} is {text!r}, and no path has a zero in it")
    return text


def check_number(name: str, value: Optional[int]) -> None:
    """Refuses a number that 64 bits do not hold."""
    if value is not None and not 0 <= value < 1 << 64:
        raise Error(f"{name} is {shown(value)}; give a number from 0 to {(1 << 64) - 1}")
