"""Maps of a pool whose values are records: dataclasses, or single values, instead of bytes.

The pool knows what each such map holds. That is written in the transaction of the map's first
record, so after a crash both are there or neither is.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from typing import Any, Generic, Optional, TypeVar

from ._map import Key, Map
from ._said import article, shown
from ._seawall import Block, Error, PoolFile

V = TypeVar("V")

#: What a field may be, and how it is written if it has a fixed size.
FORMATS: dict[type, Optional[struct.Struct]] = {
    bool: struct.Struct("<?"),
    int: struct.Struct("<q"),
    float: struct.Struct("<d"),
    str: None,
    bytes: None,
}
#: How many bytes of a text or of bytes follow.
LENGTH = struct.Struct("<I")
#: The name of the only field of a record that is a single value.
VALUE = "value"


class Schema(Generic[V]):
    """How records of a type become bytes: their fields, one after the other."""

    def __init__(self, kind: type[V]) -> None:
        if not isinstance(kind, type):
            raise TypeError(f"records are of a dataclass or {one_of()}, and {shown(kind)} is no type")
        self._kind = kind
        self._is_single = kind in FORMATS
        self._name = kind.__name__
        if self._is_single:
            self._fields: list[tuple[str, type]] = [(VALUE, kind)]
        elif dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            fields = dataclasses.fields(kind)
            self._fields = [(it.name, hints[it.name]) for it in fields]
            #: Those that its constructor is given; the others are set.
            self._given = [it.name for it in fields if it.init]
        else:
            raise TypeError(f"records are of a dataclass or {one_of()}, and {kind!r} is neither")
        for name, of in self._fields:
            if of not in FORMATS:
                raise TypeError(f"{self._name}.{name} is {of!r}: a field is {one_of()}")
        text = ", ".join(f"{name}: {of.__name__}" for name, of in self._fields)
        #: What is compared with what the pool knows of the map.
        self.text = self._name if self._is_single else f"{self._name}({text})"

    def encode(self, record: V) -> bytes:
        """The bytes of a record; names the field whose value is of another type."""
        if self._is_single:
            return self._written(VALUE, self._kind, record)
        if type(record) is not self._kind:
            raise TypeError(f"a record is a {self._name}, and {shown(record)} is none")
        data = self._joined(record)
        again = self._make([getattr(record, name) for name, _ in self._fields])
        if self._joined(again) != data:
            raise TypeError(
                f"{record!r} would be read as {again!r}: a {self._name} that is made of its fields "
                "must keep their values"
            )
        return data

    def _joined(self, record: V) -> bytes:
        return b"".join(
            self._written(f"{self._name}.{name}", of, getattr(record, name))
            for name, of in self._fields
        )

    def _written(self, name: str, of: type, value: Any) -> bytes:
        is_whole = of is float and type(value) is int
        if type(value) is not of and not is_whole:
            raise TypeError(f"{name} is {article(of)}, and {shown(value)} is {article(type(value))}")
        form = FORMATS[of]
        try:
            if form is None:
                data: bytes = value.encode() if of is str else value
                return LENGTH.pack(len(data)) + data
            return form.pack(value)
        except (struct.error, OverflowError):
            what, bits = (shown(value), 64) if form is not None else ("too long", LENGTH.size * 8)
            raise OverflowError(f"{name} is {what}, and {bits} bits hold less") from None
        except UnicodeEncodeError:
            raise ValueError(f"{name} is {value!r}, which is no text that UTF-8 has") from None

    def decode(self, data: bytes, where: str) -> V:
        """The record of these bytes; `where` they are is named if they are no such record."""
        values: list[Any] = []
        at = 0
        try:
            for _, of in self._fields:
                form = FORMATS[of] or LENGTH
                (value,) = form.unpack_from(data, at)
                at += form.size
                if form is LENGTH:
                    text = data[at : at + value]
                    if len(text) < value:
                        raise ValueError("it ends early")
                    at += value
                    value = text.decode() if of is str else text
                values.append(value)
            if at < len(data):
                raise ValueError("more follows")
        except (struct.error, ValueError) as error:
            raise Error(f"{where} is no {self.text} ({error}): it was written otherwise") from None
        return typing.cast(V, values[0]) if self._is_single else self._make(values)

    def _make(self, values: list[Any]) -> V:
        named = {name: value for (name, _), value in zip(self._fields, values)}
        record = self._kind(**{name: named.pop(name) for name in self._given})
        for name, value in named.items():
            object.__setattr__(record, name, value)
        return record


def one_of() -> str:
    *most, last = (kind.__name__ for kind in FORMATS)
    return f"{', '.join(most)} or {last}"


class TypedMap(Map[V]):
    """A map of a pool whose values are records of one type.

    It is as durable, and as much a part of transactions, as a map of bytes. A record is a value:
    to change one, put it back.
    """

    VALUES = "records"

    def __init__(
        self, file: PoolFile, block: Optional[Block], name: str, kind: type[V]
    ) -> None:
        self._schema = Schema(kind)
        super().__init__(file, block, name, self._schema.text)
        file.check_kind(block, name, self._schema.text)

    def _encode(self, value: V) -> bytes:
        return self._schema.encode(value)

    def _decode(self, key: Key, data: bytes) -> V:
        return self._schema.decode(data, f"{key!r} in the map {self._name!r}")
