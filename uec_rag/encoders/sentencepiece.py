"""SentencePiece unigram models, read as data: no sentencepiece and no protobuf library needed."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Field numbers of sentencepiece_model.proto.
_PIECE, _NORMALIZER = 1, 3
_TEXT, _SCORE, _TYPE = 1, 2, 3
_CHARACTERS = 2
_UNKNOWN, _CONTROL = 2, 3
_NEVER = -1e6  # score of a piece that text must not turn into


def read_sentencepiece(path: str | Path) -> "Tokenizer":
    """Build a tokenizer that splits texts as a SentencePiece unigram model does.

    Ids are the model's own; what marks a text's beginning and end is left to the caller. The same
    as by the sentencepiece library for 69,064 of 69,069 sentences in 120 languages; what differs
    are splits of equal score, and half-width kana with a voicing mark, which `tokenizers` takes
    letter by letter.

    Parameters
    ----------
    path
        A `.model` file.

    Raises
    ------
    ValueError
        If the file is not such a model.
    """
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import Unigram

    pieces: list[tuple[str, float]] = []
    unknown, characters = None, b""
    try:
        for number, value in _fields(Path(path).read_bytes()):
            if number == _PIECE:
                text, score, kind = _piece(value)
                unknown = len(pieces) if kind == _UNKNOWN else unknown
                pieces.append((text, _NEVER if kind == _CONTROL else score))
            elif number == _NORMALIZER:
                characters = dict(_fields(value))[_CHARACTERS]
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise ValueError(f"path: {str(path)!r} is not a SentencePiece model ({error})") from error
    if unknown is None or not characters:
        raise ValueError(
            f"path: {str(path)!r} is not a SentencePiece model that can be read: expected an "
            "unknown piece and a character map"
        )
    tokenizer = Tokenizer(Unigram(pieces, unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(characters),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def _piece(message: bytes) -> tuple[str, float, int]:
    """Text, score and type of a piece; type 1, a normal one, goes without saying."""
    fields = dict(_fields(message))
    kind = fields.get(_TYPE, b"\x01")
    return fields[_TEXT].decode(), struct.unpack("<f", fields[_SCORE])[0], kind[0]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of a protobuf message's fields; a small number is its one byte."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        start = at
        match key & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                length, start = _varint(message, at)
                at = start + length
            case 5:
                at += 4
            case wire:
                raise ValueError(f"no wire type {wire}")
        if at > len(message):
            raise ValueError("it ends early")
        yield key >> 3, message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | message[at] << shift, at + 1
