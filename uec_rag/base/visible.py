"""Text of strangers, safe to print."""

import re

# What a terminal obeys instead of showing it: C0 and C1 controls but for the line feed and the tab,
# and the marks that turn the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Show control characters by their escapes, so that none reaches a terminal.

    Examples
    --------
    >>> print(visible("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    r"""Do the same in JSON, whose strings know no "\x".

    Examples
    --------
    >>> print(visible_json('"a\x9b2Jb"'))
    "a\u009b2Jb"
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
