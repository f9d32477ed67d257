"""Objects that threads share without a lock, for which a forked process could wait for ever.

Before Python 3.12, `functools.cached_property` has one lock for all objects of a class. A
`weakref.WeakSet` cannot be iterated over while other threads add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Living(Generic[T]):
    """Objects, by identity, for as long as others refer to them.

    Iterating gives those of one moment, whatever other threads add.
    """

    def __init__(self) -> None:
        self._references = WeakValueDictionary[int, T]()

    def add(self, item: T) -> None:
        """Add an object that weak references can be made to."""
        self._references[id(item)] = item

    def __iter__(self) -> Iterator[T]:
        # `valuerefs` is one step of the interpreter, which no other thread interrupts.
        items = [reference() for reference in self._references.valuerefs()]
        return iter([item for item in items if item is not None])


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
