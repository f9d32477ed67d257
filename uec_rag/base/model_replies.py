"""The reply of a language model: its text, without its thoughts, and the JSON objects in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_MOST_READ = 20_000  # characters of a reply
_THOUGHTS = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_BEGIN_THOUGHTS = re.compile(
    rf"<{_THOUGHTS}>|\[THINK\]|◁think▷|<\|START_THINKING|<\|channel\|>analysis", re.IGNORECASE
)
_END_THOUGHTS = re.compile(
    rf"</{_THOUGHTS}>|\[/THINK\]|◁/think▷|<\|END_THINKING|<\|channel\|>final", re.IGNORECASE
)
_DECODER = json.JSONDecoder(parse_int=float)  # int raises ValueError for thousands of digits


def text_of(reply: object) -> str | None:
    """Return the text of a model's reply: of a string, or of a message; None of anything else."""
    choices = getattr(reply, "choices", None)  # of OpenAI's clients
    message = choices[0] if choices and isinstance(choices, list) else reply
    message = getattr(message, "message", message)  # there, and of LlamaIndex to messages
    names = "output_text", "text", "content"
    texts = [message, *(getattr(message, name, None) for name in names)]
    if isinstance(texts[-1], list):  # Anthropic's blocks
        blocks = [getattr(block, "text", None) for block in texts[-1]]
        texts.append("".join(block for block in blocks if isinstance(block, str)) or None)
    return next((str(text) for text in texts if isinstance(text, str)), None)


def objects_in(reply: str, limit: int = _MOST_READ) -> list[dict[str, Any]]:
    """Return the whole JSON objects in the last characters of a reply, without its thoughts.

    Examples
    --------
    >>> objects_in('<think>{"a": 1}</think>Here: [{"a": true}, {"a": "b"}]')
    [{'a': True}, {'a': 'b'}]
    """
    return [*_objects(_Unlined(without_thoughts(reply)[-limit:]))]


def without_thoughts(reply: str) -> str:
    """Return what a reply says behind its thoughts; of those that do not end, what is before."""
    return _BEGIN_THOUGHTS.split(_END_THOUGHTS.split(reply)[-1])[0]


class _Unlined(str):
    """A text whose lines an error does not count, which takes its length for each of its braces."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    rfind = count


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the whole JSON objects in a text; those within others and in halves are none."""
    at = text.find("{")
    while at >= 0:
        try:
            item, end = _DECODER.raw_decode(text, at)
            yield item
        except json.JSONDecodeError as error:
            end = max(error.pos, at + 1)
        except RecursionError:
            return
        at = text.find("{", end)
