"""Where a text's first sentence ends."""

import re

# A mark that ends a sentence, before white space or (Chinese, Japanese) before anything.
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])|\n\s*\n")  # noqa: RUF001


def split_first_sentence(text: str) -> tuple[str, str]:
    """Split off the first sentence or, where that ends earlier, the first paragraph.

    Returns
    -------
    first, rest : str
        The rest is empty where nothing follows.

    Examples
    --------
    >>> split_first_sentence("Bread wants time. Let it rise.")
    ('Bread wants time.', 'Let it rise.')
    """
    end = _END.search(text)
    if end is None:
        return " ".join(text.split()), ""
    return " ".join(text[: end.end()].split()), text[end.end() :].strip()
