"""Reading of subtitles and transcripts: what was said, by whom and when."""

import io
import re
from collections.abc import Iterator, Sequence
from html import unescape

from webvtt import WebVTT

from uec_rag.documents.document import Block, Content, Heading, Page

_SECTION, _LONGEST = 500, 700  # characters after which a section ends with a sentence, or anyway
_SENTENCE = re.compile(r"[.!?。！？…][\"'”»)]*\Z")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_SPEAKER = re.compile(r"[^\W\d_][^:]{0,40}: |[-–] |>>")
_MARKUP = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


def read_subtitles(text: str, form: str) -> Content:
    """Read subtitles of a format, "vtt" or "srt": sections are headed by their times."""
    captions = WebVTT.from_buffer(io.StringIO(text), format=form).captions
    if not captions and text.strip().removeprefix("WEBVTT").strip():
        raise ValueError("it has no subtitles")
    blocks, lines, line_before, start = list[Block](), list[str](), "", ""
    for caption in captions:
        start = start or caption.start.partition(".")[0]
        end = caption.end.partition(".")[0]
        for line in _lines(caption.lines):
            if line != line_before:  # which stays on the screen with the next one
                lines.append(line)
            line_before = line
        size = sum(map(len, lines))
        is_end = size > _SECTION and _SENTENCE.search(line_before)
        if size > _LONGEST or is_end or (lines and caption is captions[-1]):
            blocks += [Heading(f"{start} to {end}", 2), _joined(lines)]
            lines, start = [], ""
    return Content([Page(blocks)])


def _lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a subtitle without markup, with its speakers before them."""
    text = _MARKUP.sub("", _VOICE.sub(r"\n\1: ", "\n".join(lines)))
    yield from filter(None, (" ".join(line.split()) for line in unescape(text).split("\n")))


def _joined(lines: Sequence[str]) -> str:
    """Join the lines of sentences; a speaker begins a new one."""
    return "".join(f"{chr(10) if _SPEAKER.match(line) else ' '}{line}" for line in lines).strip()
