"""SentencePiece models written by hand, field by field."""

import struct


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, float):
        return varint(number << 3 | 5) + struct.pack("<f", content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text, score, kind=None):
    content = field(1, text.encode()) + field(2, score)
    return field(1, content + (b"" if kind is None else field(3, kind)))


# A map of characters in which nothing is mapped: a trie of empty units, and no replacements.
CHARACTERS = struct.pack("<I", 1024) + bytes(1024) + b"\0"
UNKNOWN, CONTROL = 2, 3
PIECES = [
    piece("<unk>", 0.0, UNKNOWN),
    piece("<s>", 0.0, CONTROL),
    piece("▁", -6.0),
    piece("▁cat", -2.0),
    piece("s", -3.0),
    piece("▁c", -3.0),
    piece("a", -3.0),
    piece("t", -3.0),
    piece("<", -4.0),
    piece(">", -4.0),
]
