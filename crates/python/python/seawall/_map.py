"""A map of a pool: a mapping whose every call is one look at the pool, or one change of it."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, NoReturn, Optional, SupportsIndex, TypeVar, Union

from ._said import article, shown
from ._seawall import Block, Error, PoolFile

Key = Union[bytes, str]
V = TypeVar("V")
#: Stands for a default that was not given.
NONE: Any = object()


class OfProcess:
    """What belongs to the process that has opened its pool."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is no value that can be copied or pickled: another process "
            "opens the pool itself, and dict(map.items()) copies the entries of a map"
        )


class Map(OfProcess, MutableMapping[Key, V]):
    """A map of a pool, whose values are bytes in some form.

    Keys come in the order of their bytes. Each call is one transaction: it sees the map at one
    moment, and changes all that it changes, or nothing.
    """

    #: What its values are called.
    VALUES = "entries"

    def __init__(
        self, file: PoolFile, block: Optional[Block], name: str, kind: Optional[str] = None
    ) -> None:
        self._file = file
        #: The transaction that is seen and changed; without one, that whose block a call is in.
        self._block = block
        self._name = name
        #: What the pool knows of the type of the values.
        self._kind = kind

    def _encode(self, value: V) -> bytes:
        raise NotImplementedError

    def _decode(self, key: Key, data: bytes) -> V:
        raise NotImplementedError

    def _get(self, key: Key) -> Optional[bytes]:
        return self._file.get(self._block, self._name, bytes_of(key))

    def _entries(self) -> list[tuple[bytes, bytes]]:
        return self._file.items(self._block, self._name)

    def __getitem__(self, key: Key) -> V:
        data = self._get(key)
        if data is None:
            raise KeyError(key)
        return self._decode(key, data)

    def __setitem__(self, key: Key, value: V) -> None:
        data = self._encode(value)
        self._file.put(self._block, self._name, bytes_of(key), data, self._kind)

    def __delitem__(self, key: Key) -> None:
        if self._file.remove(self._block, self._name, bytes_of(key)) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, (bytes, str)) and self._get(key) is not None
        except UnicodeEncodeError:
            return False

    def __iter__(self) -> Iterator[Key]:
        return iter([key for key, _ in self._entries()])

    def __len__(self) -> int:
        return self._file.count(self._block, self._name)

    def items(self) -> ItemsView[Key, V]:
        """Keys with their values; to iterate over them copies them."""
        return Items(self)

    def values(self) -> ValuesView[V]:
        """The values, in the order of their keys; to iterate over them copies them."""
        return Values(self)

    def pop(self, key: Key, default: Any = NONE) -> Any:
        """Removes an entry and returns its value, to one caller of those that ask for it."""
        there = self._get(key)
        if there is not None:
            # One that cannot be read is not removed.
            self._decode(key, there)
            there = self._file.remove(self._block, self._name, bytes_of(key))
        if there is not None:
            return self._decode(key, there)
        if default is NONE:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[Key, V]:
        """Removes an entry, the first one that no other thread removes, and returns it."""
        for key in self:
            value = self.pop(key, None)
            if value is not None:
                return key, value
        raise KeyError(f"the map {self._name!r} is empty")

    def setdefault(self, key: Key, default: Any = None) -> V:
        """The value of a key, which is the default from now on if there was none."""
        there = self._get(key)
        if there is None:
            data = self._encode(default)
            there = self._file.put_new(self._block, self._name, bytes_of(key), data, self._kind)
        return default if there is None else self._decode(key, there)

    def update(self, other: Any = (), /, **others: V) -> None:
        """Puts all entries of a mapping, or of pairs, in one transaction."""
        if isinstance(other, Mapping):
            other = other.items()
        elif hasattr(other, "keys"):
            other = [(key, other[key]) for key in other.keys()]
        entries = [(bytes_of(key), self._encode(value)) for key, value in other]
        entries += [(bytes_of(key), self._encode(value)) for key, value in others.items()]
        self._file.put_all(self._block, self._name, entries, self._kind)

    def clear(self) -> None:
        """Removes all entries, in one transaction."""
        self._file.clear(self._block, self._name)

    def __repr__(self) -> str:
        of = "" if self._kind is None else f" of {self._kind}"
        try:
            holds = f"{len(self)} {self.VALUES}"
        except Error as error:
            holds = str(error)
        return f"<seawall.{type(self).__name__} {self._name!r}{of}: {holds}>"


class Items(ItemsView[Key, V]):
    """The entries of a map as they are when somebody begins to iterate over them."""

    _mapping: Map[V]

    def __iter__(self) -> Iterator[tuple[Key, V]]:
        of = self._mapping
        return ((key, of._decode(key, data)) for key, data in of._entries())


class Values(ValuesView[V]):
    """The values of a map as they are when somebody begins to iterate over them."""

    _mapping: Map[V]

    def __iter__(self) -> Iterator[V]:
        of = self._mapping
        return (of._decode(key, data) for key, data in of._entries())


class PoolMap(Map[bytes]):
    """A map of a pool. Keys and values are bytes; a key that is text is its UTF-8.

    Keys come in the order of their bytes.
    """

    def _encode(self, value: bytes) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            remedy = "; encode it" if isinstance(value, str) else ""
            raise TypeError(f"a value is bytes, not {article(type(value))}{remedy}")
        return value if isinstance(value, bytes) else bytes(value)

    def _decode(self, key: Key, data: bytes) -> bytes:
        return data


def bytes_of(key: Key) -> bytes:
    """The bytes of a key, whatever methods a class of the caller has."""
    if isinstance(key, str):
        return str.encode(key)
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is bytes or text, and {shown(key)} is neither")
