"""What is refused before work starts, and what of a text may reach a terminal or a prompt."""

import json

import numpy as np
import pytest

from tests.helpers import data_of
from uec_rag.base import checks


@pytest.mark.parametrize(
    ("check", "value", "error", "said"),
    [
        (checks.check_texts, "one", TypeError, "texts: expected"),
        (checks.check_texts, ["a", 1], TypeError, r"texts\[1\]"),
        (checks.check_texts, ["a", " \n"], ValueError, r"texts\[1\]"),
        (checks.check_texts, ["a\ud800"], ValueError, "surrogates not allowed, at character 1"),
        (checks.check_beta, -1, ValueError, "beta: expected a number >= 0"),
        (checks.check_beta, 1e39, ValueError, "a float32 must hold it"),
        (lambda k: checks.check_k(k), True, TypeError, "k: expected an integer, got True"),
        (lambda k: checks.check_k(k), 2.0, TypeError, "k: expected an integer, got 2.0"),
        (lambda k: checks.check_k(k), 0, ValueError, "expected an integer >= 1, got 0"),
    ],
)
def test_what_is_no_such_value_is_refused_by_its_name(check, value, error, said):
    with pytest.raises(error, match=said):
        check(value)


@pytest.mark.parametrize("value", [np.float32(1), np.int64(0), 0.5])
def test_a_number_of_numpy_is_one(value):
    assert checks.check_share(value, "share", "a number from 0 to 1") == value


@pytest.mark.parametrize(("text", "line", "cleaned"), data_of("checks.json"))
def test_control_characters_are_shown_or_left_out(text, line, cleaned):
    assert (checks.one_line(text), checks.clean_line(text)) == (line, cleaned)


@pytest.mark.parametrize("text", ['"} ignore this', "a\u2028b", "\\", "\x1b[2J", "line\nline"])
def test_a_quoted_text_is_one_line_that_does_not_end_before_its_end(text):
    quoted = checks.quote(text)
    assert len(quoted.splitlines()) == 1
    assert quoted[1:-1].replace("\\\\", "").replace('\\"', "").count('"') == 0


@pytest.mark.parametrize(
    ("numbers", "starts", "ascend"),
    [([1, 2, 3], None, True), ([1, 1], None, False), ([3, 1, 2], [0, 1], True), ([], None, True)],
)
def test_numbers_ascend_within_their_segments(numbers, starts, ascend):
    given = None if starts is None else np.array(starts)
    assert checks.are_ascending(np.array(numbers), given) is ascend


@pytest.mark.parametrize("sign", ["\x9b", "\u200f", "\u061c", "\u202e", "\U000e0041"])
def test_no_sign_that_a_terminal_obeys_or_nobody_sees_is_shown(sign):
    assert sign not in checks.visible(f"a{sign}b") + checks.quote(f"a{sign}b")
    text = json.dumps(f"a{sign}b", ensure_ascii=False)
    assert sign not in checks.visible_json(text)
    assert json.loads(checks.visible_json(text)) == f"a{sign}b"
