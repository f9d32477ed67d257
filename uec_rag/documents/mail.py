"""Reading of mail: the texts of a message, the messages in it, and invitations; mailboxes."""

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import Message
from typing import Any

from uec_rag.documents.calendars import SUBJECT, events_of
from uec_rag.documents.document import Block, Content, Heading, Page, deeper
from uec_rag.documents.html import html_blocks
from uec_rag.documents.plain_text import decode

_MOST_PARTS = 200  # of a message, which may nest
_STUB = 0.5  # of the words of HTML: a text with fewer only says that there is HTML
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_SEPARATOR = re.compile(rb"^From .*\n?", re.MULTILINE)  # above each message of a mailbox
_CHARSET = re.compile(r"(\bcharset=[\"']?)(?:utf-?(?:16|32)(?:[bl]e)?|unicode)\b", re.IGNORECASE)


def read_email(data: bytes) -> Content:
    """Read a message: its subject is the title; attachments are left out."""
    data = _in_bytes(data)
    if max(map(data.count, (b"boundary=", b"message/rfc822"))) > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS} parts")
    message = message_from_bytes(data, policy=policy.default)
    attached = list[str]()
    blocks: list[Block] = [_head(message)]
    for block in _blocks(message, attached):
        if block not in blocks or not str(block).startswith(SUBJECT):
            blocks.append(block)
        elif isinstance(blocks[-1], Heading):  # some calendars send the same invitation twice
            blocks.pop()
    left_out = {f"attachment ({', '.join(attached)})": len(attached)}
    title, text = str(message["subject"] or ""), _as_sent(data)
    return Content([Page(blocks)], title, _said(message), left_out=left_out, text=text)


def _as_sent(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _in_bytes(data: bytes) -> bytes:
    """Return a message as it is sent, of one that a program saved in UTF-16 or with a mark."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            text = data.decode(encoding, "replace")
            # Its parts are in UTF-8 then, whatever they were in when it was sent.
            return _CHARSET.sub(r"\1utf-8", text).encode()
    return data


def read_mailbox(data: bytes) -> Content:
    """Read the messages of a mailbox in the format mbox, each headed by its subject."""
    data, blocks, left_out = _in_bytes(data), list[Block](), Counter[str]()
    for message in _SEPARATOR.split(data)[1:]:
        try:
            content = read_email(message.replace(b"\n>From ", b"\nFrom "))
        except ValueError:
            left_out["message that cannot be read"] += 1
            continue
        blocks.append(Heading(content.title or "(no subject)", 2))
        blocks += [part for page in content.pages for part in deeper(page.blocks, 2)]
        for noun, count in content.left_out.items():  # without the names of attachments
            left_out[noun.partition(" (")[0]] += count
    if not blocks and data.strip():
        raise ValueError("it holds no messages")
    return Content([Page(blocks)], left_out=left_out, text=_as_sent(data))


def _said(message: Message) -> dict[str, str]:
    return {name: str(message[name]) for name in ("from", "to", "date") if message[name]}


def _head(message: Message) -> str:
    return "\n".join(f"{name.title()}: {value}" for name, value in _said(message).items())


def _blocks(part: Any, attached: list[str]) -> Iterator[Block]:  # noqa: ANN401
    """Yield the texts of a part and of those in it, in their order."""
    kind, name = part.get_content_type(), part.get_filename()
    if kind == "message/rfc822" and part.is_multipart():
        for message in part.get_payload():
            yield Heading(str(message["subject"] or "Message"), 2)
            yield _head(message)
            yield from _blocks(message, attached)
        yield Heading("", 2)  # what follows is below its heading no more
    elif kind == "multipart/alternative" and part.is_multipart():
        yield from _best(part.get_payload(), attached)
    elif part.is_multipart():
        for child in part.get_payload():
            yield from _blocks(child, attached)
    elif kind == "text/calendar":
        events = list[Block]()
        with suppress(ValueError):
            events = events_of(_text(part), str(part.get_param("method") or ""))
        attached += [] if events else [name or "without a name"]
        yield from events
    elif kind.startswith("text/") and part.get_content_disposition() != "attachment":
        yield from html_blocks(_text(part)) if kind == "text/html" else [_text(part).strip()]
    elif kind not in _SIGNATURES and (name or not part.get("content-id")):
        attached.append(name or "without a name")


def _best(parts: list[Any], attached: list[str]) -> Iterator[Block]:
    """Yield the plain text of alternatives, or the last one if that is a stub; and invitations."""
    alternatives = [([*_blocks(part, attached)], part.get_content_type()) for part in parts]
    counts = [sum(len(str(block).split()) for block in blocks) for blocks, _ in alternatives]
    texts = [n for n, (_, kind) in enumerate(alternatives) if kind != "text/calendar" and counts[n]]
    longest = max((counts[n] for n in texts), default=0)
    full = [n for n in texts if counts[n] >= _STUB * longest]
    plain = [n for n in full if alternatives[n][1] == "text/plain"]
    for n, (blocks, kind) in enumerate(alternatives):
        if kind == "text/calendar" or n in (plain or full)[-1:]:
            yield from blocks


def _text(part: Message) -> str:
    payload, charset = part.get_payload(decode=True), part.get_content_charset("utf-8")
    if not isinstance(payload, bytes):
        return ""
    with suppress(UnicodeDecodeError, LookupError):  # of which some look like UTF-8
        return payload.decode(charset).replace("\r\n", "\n")
    return decode(payload)[0]
