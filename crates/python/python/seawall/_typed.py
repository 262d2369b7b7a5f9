"""Maps of a pool whose values are records: dataclasses, or single values, instead of bytes.

The pool knows what each such map holds. That is written in the transaction of the map's first
record, so after a crash both are there or neither is.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

from ._seawall import Error

if TYPE_CHECKING:
    from ._pool import Key, Pool, PoolMap

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
            raise TypeError(f"records are of a dataclass or {one_of()}, and {kind!r} is no type")
        self._kind = kind
        self._is_single = kind in FORMATS
        self._name = kind.__name__
        if self._is_single:
            self._fields: list[tuple[str, type]] = [(VALUE, kind)]
        elif dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            self._fields = [(it.name, hints[it.name]) for it in dataclasses.fields(kind) if it.init]
        else:
            raise TypeError(f"records are of a dataclass or {one_of()}, and {kind!r} is neither")
        for name, of in self._fields:
            if of not in FORMATS:
                raise TypeError(f"{self._name}.{name} is {of!r}: a field is {one_of()}")
        fields = ", ".join(f"{name}: {of.__name__}" for name, of in self._fields)
        #: What is compared with what the pool knows of the map.
        self.text = self._name if self._is_single else f"{self._name}({fields})"

    def encode(self, record: V) -> bytes:
        """The bytes of a record; names the field whose value is of another type."""
        if self._is_single:
            return self._written(VALUE, self._kind, record)
        if type(record) is not self._kind:
            raise TypeError(f"a record is a {self._name}, and {record!r} is none")
        return b"".join(
            self._written(f"{self._name}.{name}", of, getattr(record, name))
            for name, of in self._fields
        )

    def _written(self, name: str, of: type, value: Any) -> bytes:
        is_whole = of is float and type(value) is int
        if type(value) is not of and not is_whole:
            raise TypeError(f"{name} is {article(of)}, and {value!r} is {article(type(value))}")
        form = FORMATS[of]
        if form is None:
            data: bytes = value.encode() if of is str else value
            return LENGTH.pack(len(data)) + data
        try:
            return form.pack(value)
        except struct.error:
            raise OverflowError(f"{name} is {value}, and 64 bits hold less") from None

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
        names = (name for name, _ in self._fields)
        return self._kind(**dict(zip(names, values)))


def one_of() -> str:
    *most, last = (kind.__name__ for kind in FORMATS)
    return f"{', '.join(most)} or {last}"


def article(kind: type) -> str:
    return f"an {kind.__name__}" if kind.__name__[0] in "aeiou" else f"a {kind.__name__}"


class TypedMap(MutableMapping["Key", V]):
    """A map of a pool whose values are records of one type.

    It is as durable, and as much a part of transactions, as a map of bytes. A record is a value:
    to change one, put it back.
    """

    def __init__(self, pool: Pool, name: str, kind: type[V]) -> None:
        self._pool = pool
        self._name = name
        self._bytes: PoolMap = pool[name]
        self._schema = Schema(kind)
        self._check(pool._noted_type(name))

    def _check(self, noted: Optional[str]) -> None:
        """Refuses a map that holds something else; one that is empty may hold anything from now on."""
        if noted != self._schema.text and len(self._bytes) > 0:
            holds = "bytes without a type" if noted is None else noted
            raise Error(
                f"the map {self._name!r} holds {holds}, and not {self._schema.text}: open it as "
                "that, or empty it first"
            )

    def __getitem__(self, key: Key) -> V:
        return self._schema.decode(self._bytes[key], f"{key!r} in the map {self._name!r}")

    def __setitem__(self, key: Key, record: V) -> None:
        data = self._schema.encode(record)
        with self._pool._in_transaction():
            noted = self._pool._noted_type(self._name)
            if noted != self._schema.text:
                self._check(noted)
                self._pool._note_type(self._name, self._schema.text)
            self._bytes._put(key, data)

    def __delitem__(self, key: Key) -> None:
        del self._bytes[key]

    def __contains__(self, key: object) -> bool:
        return key in self._bytes

    def __iter__(self) -> Iterator[Key]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def clear(self) -> None:
        """Removes all records, in one transaction."""
        self._bytes.clear()

    def __repr__(self) -> str:
        holds = "of a closed pool" if self._pool.is_closed else f"{len(self)} records"
        return f"<seawall.TypedMap {self._name!r} of {self._schema.text}: {holds}>"
