"""Reading of mailboxes: one section for each message."""

from __future__ import annotations

import mailbox
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from uec_rag.documents.document import Block, Content, Heading, Page, deeper
from uec_rag.documents.mail import read_email


def read_mailbox(data: bytes) -> Content:
    """Read the messages of a mailbox in the format mbox, each headed by its subject."""
    blocks, left_out = list[Block](), Counter[str]()
    with TemporaryDirectory() as folder:
        path = Path(folder, "mbox")  # the standard library reads no bytes
        path.write_bytes(data)
        box = mailbox.mbox(path, create=False)
        for key in box.iterkeys():
            try:
                content = read_email(box.get_bytes(key).replace(b"\n>From ", b"\nFrom "))
            except ValueError:
                left_out["message that cannot be read"] += 1
                continue
            blocks.append(Heading(content.title or "(no subject)", 2))
            blocks += [part for page in content.pages for part in deeper(page.blocks, 2)]
            for noun, count in content.left_out.items():  # without the names of attachments
                left_out[noun.partition(" (")[0]] += count
        box.close()
    if not blocks and data.strip():
        raise ValueError("it holds no messages")
    return Content([Page(blocks)], left_out=left_out)
