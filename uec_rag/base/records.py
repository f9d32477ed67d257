"""Records that are saved as JSON and checked when loaded, and what threads share without a lock.

For a lock, a forked process could wait for ever. Before Python 3.12, `functools.cached_property`
has one for all objects of a class; a `weakref.WeakSet` cannot be iterated over while others add.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, TypeVarTuple, cast

import msgspec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Texts = TypeVarTuple("Texts")

_OF_ENTRY = 50  # characters that keeping a text takes beyond its own


class Living(Generic[T]):
    """Objects, by identity, for as long as others refer to them.

    Iterating gives those of one moment, whatever other threads add.
    """

    def __init__(self) -> None:
        self._references = weakref.WeakValueDictionary[int, T]()

    def add(self, item: T) -> None:
        """Add an object that weak references can be made to."""
        self._references[id(item)] = item

    def __iter__(self) -> Iterator[T]:
        # `valuerefs` is one step of the interpreter, which no other thread interrupts.
        items = [reference() for reference in self._references.valuerefs()]
        return iter([item for item in items if item is not None])


class Memory(Generic[T]):
    """Values that belong to objects, by identity, and go with them.

    Nothing is remembered for what no weak reference can be made to, such as None.

    Parameters
    ----------
    make : callable() -> T
        Makes the value of an object that has none.

    Examples
    --------
    >>> class Shop: ...
    >>> memory, shop = Memory(list), Shop()
    >>> memory.of(shop).append("bread")
    >>> memory.of(shop), memory.of(Shop())
    (['bread'], [])
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._values = make, dict[int, tuple[object, T]]()

    def of(self, owner: object) -> T:
        """Return the value of an object."""
        key = id(owner)
        if (entry := self._values.get(key)) is None:
            entry = None, self._make()
            with suppress(TypeError):
                reference = weakref.ref(owner, lambda _: self._values.pop(key, None))
                entry = self._values.setdefault(key, (reference, entry[1]))
        return entry[1]


class Recent(dict[K, V]):
    """Values that can be made again, of which those used last are kept.

    Parameters
    ----------
    most : float
        The largest size of all together; the value that was kept last stays in any case.
    size : callable(value) -> float
        Of a value, 1 by default.

    Examples
    --------
    >>> recent = Recent(2)
    >>> for name in "ab":
    ...     recent.keep(name, name.upper())
    >>> recent.use("a"), recent.keep("c", "C"), [*recent]
    ('A', None, ['a', 'c'])
    """

    def __init__(self, most: float, size: Callable[[V], float] | None = None) -> None:
        super().__init__()
        self._most, self._size, self._sizes = most, size, dict[K, float]()
        self._total, self._lock = 0.0, threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Recent, (self._most, self._size)  # without what can be made again

    def use(self, key: K) -> V | None:
        """Return the value of a key, which is used last now; None if there is none."""
        with self._lock:
            if (value := self.pop(key, None)) is not None:
                self[key] = value
        return value

    def keep(self, key: K, value: V) -> None:
        """Keep a value, and forget those that were used longest ago where they are too many."""
        size = 1 if self._size is None else self._size(value)
        with self._lock:
            self.pop(key, None)
            self._total += size - self._sizes.pop(key, 0)
            self[key], self._sizes[key] = value, size
            while len(self) > 1 and self._total > self._most:
                self.pop(oldest := next(iter(self)))
                self._total -= self._sizes.pop(oldest)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            super().clear()
            self._sizes.clear()
            self._total = 0.0

    def restart(self) -> None:
        """Forget all in a forked child, where no thread is left that would release the lock."""
        self._lock = threading.Lock()
        self.clear()


def remembered(limit: int) -> Callable[[Callable[[*Texts], T]], Callable[[*Texts], T]]:
    """Let a function of texts remember what it returned last, up to so many characters of texts.

    Nothing is remembered for a longer text: what many users ask of stays in memory for good.

    Examples
    --------
    >>> @remembered(200)
    ... def shout(text):
    ...     print("computed")
    ...     return text.upper()
    >>> shout("a"), shout("a"), len(shout("b" * 200)), len(shout("b" * 200))
    computed
    computed
    computed
    ('A', 'A', 200, 200)
    """

    def decorate(function: Callable[[*Texts], T]) -> Callable[[*Texts], T]:
        recent = Recent[Any, tuple[int, T]](limit, itemgetter(0))
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
            os.register_at_fork(after_in_child=recent.restart)

        @wraps(function)
        def use(*texts: *Texts) -> T:
            if (row := recent.use(texts)) is None:
                row = sum(map(len, cast(Any, texts))) + _OF_ENTRY, function(*texts)
                if row[0] <= limit:
                    recent.keep(texts, row)
            return row[1]

        return use

    return decorate


if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property:
        """A method as a property that is computed once for each object.

        Threads that need it at the same time may each compute it; all get the same object.

        Parameters
        ----------
        function : callable

        Examples
        --------
        >>> class Circle:
        ...     def __init__(self, radius):
        ...         self.radius = radius
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return 3.14 * self.radius**2
        >>> circle = Circle(10.0)
        >>> circle.area, circle.area
        computed
        (314.0, 314.0)
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: object, owner: type | None = None) -> Any:  # noqa: ANN401
            if instance is None:
                return self
            # Python looks into the object's dict first, so this runs only until there is a value.
            return instance.__dict__.setdefault(self.name, self.function(instance))


# msgspec 0.22 crashes if two threads convert to a type for the first time together.
_converting = threading.Lock()


def _unlock() -> None:
    """Make the lock anew in a forked child, where no thread is left that would release it."""
    global _converting
    _converting = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_unlock)


class Record:
    """The base of saved dataclasses of numbers, texts, tuples and other records.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Line(Record):
    ...     slope: float
    ...     offset: float = 0.0
    >>> Line(2.0).metadata()
    {'slope': 2.0, 'offset': 0.0}
    >>> Line.restore({"slope": 2.0})
    Line(slope=2.0, offset=0.0)
    >>> Line.restore({"slope": "steep"})
    Traceback (most recent call last):
    ValueError: Line: expected the fields of a saved Line, got {'slope': 'steep'} (Expected \
`float`, got `str` - at `$.slope`).
    """

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the state; cached, since every search needs it."""
        return hashlib.sha256(json.dumps(self.metadata()).encode()).hexdigest()[:16]

    def metadata(self) -> dict[str, Any]:
        """Return the state as a JSON object; NaN and infinity become None."""
        data = msgspec.json.encode(self, enc_hook=lambda scalar: scalar.item())  # of NumPy
        return cast(dict[str, Any], msgspec.json.decode(data))

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing, unknown or invalid.

        NaN and infinity are invalid. Unknown keys are refused, since they may change the meaning of
        the others.
        """
        try:
            with _converting:
                record = msgspec.convert(metadata, cls)
            if unknown := metadata.keys() - {field.name for field in fields(cast(Any, cls))}:
                raise ValueError(f"no field {min(unknown)!r}, unless a newer uec-rag made it")
            json.dumps(metadata, allow_nan=False)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ValueError(
                f"{cls.__name__}: expected the fields of a saved {cls.__name__}, got "
                f"{metadata!r:.2000} ({error})."
            ) from error
        return record
