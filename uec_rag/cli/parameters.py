"""Parameters of commands that need no library to be read: texts, paths and numbers.

typer reads each value by pydantic, which takes longer to load than a question takes to answer.
Whatever is not as plain as this is left to it, also to say what is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_NUMBER = re.compile(r"-?\d{1,9}")


class _Plain:
    """A reader of the value of a parameter, in place of typer's own where that is not needed."""

    def coerce(self, value: Any, param: Any, ctx: typer.Context) -> Any:  # noqa: ANN401
        """Return the value of a parameter; typer's BadParameter if it is not valid."""
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if kind is str and isinstance(value, str):
            return value
        if kind is Path and isinstance(value, str) and not _checks_paths(info):
            return Path(value)
        if kind is int and re.fullmatch(_NUMBER, str(value)) and not isinstance(value, bool):
            low, high = (float(bound) for bound in (info.min or "-inf", info.max or "inf"))
            if low <= int(value) <= high:
                return int(value)
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _checks_paths(info: Any) -> bool:  # noqa: ANN401
    return any((info.exists, info.resolve_path, info.allow_dash, info.path_type))


def _simplified(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        # Else it is of a version of typer that needs no pydantic.
        if getattr(parameter, "_runtime_param", _Plain) is None:
            parameter._runtime_param = _Plain()
    return parameters


class PlainCommand(TyperCommand):
    """A command whose plain parameters are read here."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401
        """Return the parameters, with that of the help."""
        return _simplified(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose plain parameters are read here."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401
        """Return the parameters, with that of the help."""
        return _simplified(super().get_params(ctx))
