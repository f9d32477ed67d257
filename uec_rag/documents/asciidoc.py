"""Remove comments and conditional text from AsciiDoc, as a processor does before it reads."""

import re
from collections.abc import Iterator

_CONDITION = re.compile(r"(ifdef|ifndef|ifeval|endif)::([^\[\]\s]*)\[(.*)\][ \t]*")
_ATTRIBUTE = re.compile(r":(!?)([\w-]+)(!?):(?:[ \t].*)?")
_DELIMITER = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|```.*)[ \t]*")  # of code, or of a comment
# Lines that say something of what follows, at the end, where nothing does: pandoc refuses them.
_ABOVE = re.compile(r"\s*|:!?[\w-]+!?:.*|\[.*\]\s*|\.[^\s.].*")


def without_comments(text: str) -> str:
    r"""Return AsciiDoc without comments, nor text for which an attribute must be set that is not.

    Examples
    --------
    >>> without_comments("Five.\n// ten\nifdef::internal[]\nSix.\nendif::[]\nSeven.")
    'Five.\nSeven.\n'
    """
    lines = [*_shown(text.split("\n"))]
    while lines and _ABOVE.fullmatch(lines[-1]):
        lines.pop()
    return "\n".join([*lines, ""])


def _shown(lines: list[str]) -> Iterator[str]:
    names, conditions, delimiter = set[str](), list[bool](), ""
    for line in lines:
        if (condition := _CONDITION.fullmatch(line)) is not None:
            kind, attributes, text = condition.groups()
            if kind == "endif":
                del conditions[-1:]
                continue
            is_met = kind == "ifeval" or _is_met(attributes, names) == (kind == "ifdef")
            if kind == "ifeval" or not text:
                conditions.append(is_met)
                continue
            line, is_shown = text, is_met
        else:
            is_shown = True
        if not is_shown or not all(conditions):
            continue
        if _DELIMITER.fullmatch(line):
            mark = line.strip()[:3] if line.startswith("```") else line.strip()
            is_comment = (delimiter or mark).startswith("/")
            delimiter = mark if not delimiter else "" if mark == delimiter else delimiter
            if is_comment:
                continue
        elif delimiter.startswith("/") or (not delimiter and re.match("//(?!/)", line)):
            continue
        elif not delimiter and (attribute := _ATTRIBUTE.fullmatch(line)) is not None:
            is_unset = attribute[1] or attribute[3]
            (names.discard if is_unset else names.add)(attribute[2])
        yield line


def _is_met(attributes: str, names: set[str]) -> bool:
    """Return whether all of "a+b" or some of "a,b" are set."""
    combine = all if "+" in attributes else any
    return combine(name in names for name in re.split("[+,]", attributes))
