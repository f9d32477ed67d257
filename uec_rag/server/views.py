"""The views of an index on the explorer's page, as JSON-compatible values.

The text of a passage is a tree of elements, so that no markup in it reaches the page: a node is
either a string, or a list of an element's name and its child nodes. Whatever the text contains,
elements have no attributes and their names are from a fixed list, so that nothing can load or run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import islice, zip_longest
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from uec_rag.base.checks import one_line, visible
from uec_rag.confidence.languages import tables
from uec_rag.confidence.risk import reliability, risk_over_coverage
from uec_rag.documents.document import body_of
from uec_rag.documents.questions import make_questions
from uec_rag.encoders.lexical import mark_words
from uec_rag.evaluation.inspection import (
    fuse,
    passage_at,
    search_by_each_member,
)
from uec_rag.evaluation.labels import doubtful_labels
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.labelled import LabelledSearch
from uec_rag.stores.base import Passage

View: TypeAlias = dict[str, Any]

SHOWN = 20_000
"""The number of characters of a passage that the page shows."""

AT_ONCE = 50
"""The number of passages of a file that the page shows at a time."""

RISKS = [percent / 100 for percent in range(1, 51)]
"""The shares of wrong answers that the slider offers."""

_FUSED = 100  # hits of each member that are fused
_POINTS = 200  # of a curve
_MOST_ROWS = 2_000  # questions whose decisions the page lists
_MOST_PASSAGES, _MOST_SOURCES = 100_000, 500  # read to count sources, and listed
_EXAMPLES, _ASKED_FOR = 6, 2_000  # example questions, and passages that they are made from
_HOW_TO = re.compile(r"How to (?=\w)")
# An auxiliary verb must follow, unlike in "Where the weights come from".
_ASKS = re.compile(
    r"(?:How|What|When|Where|Who|Why) "
    r"(?:am|are|can|could|did|do|does|has|have|is|may|must|shall|should|was|were|will|would) "
)
_BEGINNING = 90  # characters
_WORDS = re.compile(r"\w+")
_PLACES = ("page", "slide", "sheet")
_MARKS = re.compile(r"```\w*|[`*]+|^[#>]+|\||:?-{3,}:?", re.MULTILINE)  # of Markdown


def passage_view(passage: Passage) -> View:
    """Return a passage's source and beginning, without control characters."""
    fields = passage.metadata
    source, title = _source(passage), _title(passage)
    text = _MARKS.sub("", body_of(passage)[: 3 * _BEGINNING])
    beginning = " ".join(visible(text).split())
    return {
        "id": visible(passage.id),
        "source": source[:200],
        "place": one_line(", ".join(f"{at} {fields[at]}" for at in _PLACES if at in fields))[:100],
        "title": "" if title == source else title[:200],
        "beginning": beginning[:_BEGINNING] + " …" * (len(beginning) > _BEGINNING),
    }


def whole_view(passage: Passage, words: Collection[str] = ()) -> View:
    """Return a whole passage, its text as a tree of elements with `words` marked."""
    text = body_of(passage)
    is_markdown = _source(passage).lower().endswith((".md", ".markdown", ".mdx"))
    return passage_view(passage) | {
        "body": markup(visible(text[:SHOWN]), words, is_markdown=is_markdown),
        "markdown": is_markdown,
        "characters": len(text),
        "cut": len(text) > SHOWN,
    }


def _source(passage: Passage) -> str:
    source = one_line(str(passage.metadata.get("source", passage.id)))
    # Folders of this machine are not shown.
    return PurePath(source).name if PurePath(source).is_absolute() else source


def _title(passage: Passage) -> str:
    return one_line(str(passage.metadata.get("title", "")))


def number(value: float) -> float | None:
    """Convert a number for JSON; None if it is not finite."""
    return value if math.isfinite(value) else None


def ask_view(
    retriever: Retriever,
    question: str,
    k: int,
    history: Sequence[str] = (),
    within: Sequence[str] | str | None = None,
) -> View:
    """Ask a question; return the decision, the hits, and the hits of other search methods.

    `history`: the turns before the question, which the other methods ignore. `within`: as in
    `Retriever.search`; the other methods ignore it, too.
    """
    result = retriever.search([question], k, history=[history], within=within)
    outcome, gate = result[0], retriever.gate
    decision, words = outcome.decision, outcome.members and outcome.members.words
    own = {id_: position for position, id_ in enumerate(result.ids[0], 1)}
    hits = []
    for rank, passage in enumerate(result.passages[0]):
        fields = outcome.metadata(rank, details=True)
        hit = whole_view(passage, words[rank] if words else _WORDS.findall(question))
        hit |= {
            name: fields.get(f"uec_{name}") for name in ("score", "mu", "relevance", "encoders")
        }
        hit |= {"sigma": math.sqrt(fields["uec_sigma2"]), "place_here": rank + 1}
        hits.append(hit | {"is_candidate": passage.id in decision.candidates})
    shares = dict(zip(result.names, result.shares[0].tolist(), strict=True))
    view = {
        "question": visible(question),
        "decision": decision.action,
        "reason": visible(decision.reason),
        "language": decision.language,
        "told": tables()[decision.language]["page"],
        "readings": [
            details | {"title": visible(details["title"])} for details in decision.choices
        ],
        "confidence": decision.confidence,
        "in_corpus": decision.in_corpus,
        "threshold": 0.5 if gate is None else gate.threshold,
        "weights": shares,
        "exact": result.exact,
        "passages": hits,
    }
    members = search_by_each_member(retriever, [question], _FUSED)
    rankings = {name: search_result.passages for name, search_result in members.items()}
    if not rankings or not hits:
        return view | {"others": []}
    first = max(shares, key=lambda name: shares[name])
    others = {
        f"{first} alone": rankings[first][0],
        "Reciprocal rank fusion": fuse([*rankings.values()])[0],
    }
    columns = [
        {
            "name": name,
            "passages": [passage_view(p) | {"place_here": own.get(p.id)} for p in found[:k]],
        }
        for name, found in others.items()
    ]
    return view | {"others": columns}


def guarantee_view(gate: Gate) -> View:
    """Return the guarantee of a gate, if it has one, and its threshold."""
    fields = {} if gate.guarantee is None else gate.guarantee.metadata()
    return {**fields, "threshold": gate.threshold}


def tune_view(name: str, searched: LabelledSearch) -> View:
    """Return the risk curve, reliability, thresholds by risk, and the most confident questions.

    `name`: of the table of labels; "" if the questions were made from the passages.
    """
    sure, right = searched.confidence, searched.right
    order = np.argsort(-sure, kind="stable")
    decisions = searched.result.decide(0.5, searched.k)
    # A question that is asked back is not answered, whatever the threshold.
    told = np.array([decision.action != "clarify" for decision in decisions])
    coverage, risk = risk_over_coverage(sure[told], right[told])
    places = np.unique(np.linspace(0, len(risk) - 1, min(len(risk), _POINTS)).round().astype(int))
    promises = {
        "wrongs": [searched.threshold(max_wrong=share) for share in RISKS],
        "risks": [searched.threshold(share) for share in RISKS],
    }
    return {
        "name": visible(name),
        "questions": len(sure),
        "k": searched.k,
        "doubtful": doubtful_labels(searched.result, searched.relevant, searched.k) if name else [],
        "curve": np.stack([coverage * told.mean(), risk], axis=1)[places].tolist(),
        "reliability": [asdict(bin_) for bin_ in reliability(sure, right)],
        **{
            name: [guarantee.metadata() | {"report": guarantee.report} for guarantee in thresholds]
            for name, thresholds in promises.items()
        },
        "rows": [
            {
                "question": visible(searched.result.queries[row])[:300],
                "confidence": float(sure[row]),
                "right": bool(right[row]),
                "answerable": bool(searched.relevant[row]),
                "asked_back": not bool(told[row]),
            }
            for row in order[:_MOST_ROWS].tolist()
        ],
    }


def file_view(retriever: Retriever, id_: str, start: int | None) -> View:
    """Return up to `AT_ONCE` passages from the source of a passage; KeyError if it is unknown.

    `start`: position of the first one; by default, the passage itself is among them.
    """
    passage = passage_at(retriever, id_)
    source = passage.metadata.get("source")
    passages = [passage] if source is None else [*retriever.passages({"source": source})]
    if start is None:
        start = passages.index(passage) // AT_ONCE * AT_ONCE
    return {
        "source": _source(passage),
        "passages": [whole_view(hit) for hit in passages[start : start + AT_ONCE]],
        "start": start,
        "at_once": AT_ONCE,
        "total": len(passages),
    }


def index_view(retriever: Retriever) -> View:
    """Return facts about an index: size, encoders, calibration, files and example questions."""
    uec, store = retriever.uec, retriever.store
    files: dict[str, View] = {}
    for passage in islice(retriever.passages(), _MOST_PASSAGES):
        new = {"source": _source(passage), "id": passage.id, "passages": 0}
        files.setdefault(_source(passage), new)["passages"] += 1
    return {
        "passages": len(retriever),
        "store": type(store).__name__,
        "exact": not store.remote,
        "encoders": [
            {"name": visible(name), "weight": float(weight)}
            for name, weight in zip(uec.fitted.block_names, uec.fitted.weights, strict=True)
        ],
        "report": visible(retriever.report),
        "sources": sorted(files.values(), key=lambda file: str(file["source"]))[:_MOST_SOURCES],
        "sources_counted": len(files),
        "passages_counted": min(len(retriever), _MOST_PASSAGES),
        "examples": questions_to_ask(retriever, fewest=_EXAMPLES)[:_EXAMPLES],
    }


def questions_to_ask(retriever: Retriever, fewest: int = 0) -> list[str]:
    """List questions to ask an index, the first ones from as many sources as possible.

    They are headings that ask something, as questions. Other headings follow as they are, and if
    these are fewer than `fewest`, first sentences.
    """
    passages = [*islice(retriever.passages(), _ASKED_FOR)]
    made = make_questions(passages, len(passages))
    of_source: dict[str, list[str]] = {}
    for heading, places in zip(made.questions, made.relevant, strict=True):
        passage = passages[places[0]]
        if _title(passage).endswith(heading):
            of_source.setdefault(_source(passage), []).append(heading)
    ranked = [sorted(some, key=lambda one: not question_in(one)) for some in of_source.values()]
    # The first of each source, then the second of each, and so on.
    rounds = [
        question for some in zip_longest(*ranked) for question in some if question is not None
    ]
    questions = rounds if len(rounds) >= fewest else [*dict.fromkeys([*rounds, *made.questions])]
    shown = [one_line(question.replace("`", "")) for question in questions]
    shown.sort(key=lambda one: not question_in(one))
    return [question_in(line) or line for line in shown]


def question_in(heading: str) -> str:
    """Convert a heading that asks something to a question; "" if it does not ask.

    Examples
    --------
    >>> question_in("How to sign a tag"), question_in("Who may upload"), question_in("Tags")
    ('How do I sign a tag?', 'Who may upload?', '')
    >>> question_in("Where the weights come from"), question_in("Was ist ein Tag?")
    ('', 'Was ist ein Tag?')
    """
    if heading.endswith(("?", "\uff1f")):
        return heading
    if match := _HOW_TO.match(heading):
        return f"How do I {heading[match.end() :]}?"
    return f"{heading}?" if _ASKS.match(heading) else ""


Node: TypeAlias = "str | list[Node]"

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_ELEMENTS = {
    **{"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"},
    **{name: name for name in ("blockquote", "table", "thead", "tbody", "tr", "th", "td")},
    **{"strong": "strong", "em": "em", "s": "s", "hardbreak": "br", "code_inline": "code"},
    **{"fence": "pre", "code_block": "pre"},
}
_FENCE = re.compile(r"^ {0,3}```(.*)$", re.MULTILINE)
_RULE = re.compile(r"\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*")  # below the header of a table
_BLANK = re.compile(r"\n\s*\n")


def markup(text: str, words: Collection[str] = (), *, is_markdown: bool) -> list[Node]:
    """Parse a text into nodes, with `words` marked.

    `is_markdown`: if false, the text is plain and split into paragraphs.

    Examples
    --------
    >>> markup("Rest **well** <script>", ["rest"], is_markdown=True)
    [['p', ['mark', 'Rest'], ' ', ['strong', 'well'], ' <script>']]
    """
    if not is_markdown:
        return [["p", *_mark(part, words)] for part in _BLANK.split(text) if part.strip()]
    return _nodes(SyntaxTreeNode(_MARKDOWN.parse(_mend(text))), words)


def _mend(text: str) -> str:
    """Restore the table header or opening fence that was cut off before this Markdown."""
    first, _, rest = text.partition("\n")
    if first.startswith("|") and not _RULE.fullmatch(rest.partition("\n")[0]):
        width = first.strip().strip("|").count("|") + 1
        return f"{'|' * (width + 1)}\n{'|---' * width}|\n{text}"
    fences = _FENCE.findall(text)
    # If fences are odd, a first one without a language closes code that began before the cut.
    return f"```\n{text}" if len(fences) % 2 and not fences[0].strip() else text


def _nodes(tree: SyntaxTreeNode, words: Collection[str]) -> list[Node]:
    nodes: list[Node] = []
    for child in tree.children:
        inner = _nodes(child, words) if child.children else _mark(_text(child), words)
        name = _ELEMENTS.get(child.type)
        if child.type == "heading":
            nodes.append(["p", ["strong", *inner]])
        elif name == "thead" and all(cell == ["td"] for row in inner for cell in row[1:]):
            continue  # the empty header that `_mend` added
        elif name is not None:
            nodes.append(["td" if name == "th" and not inner else name, *inner])
        else:
            nodes += inner
    return nodes


def _text(leaf: SyntaxTreeNode) -> str:
    return " " if leaf.type == "softbreak" else "" if leaf.type == "hr" else leaf.content


def _mark(text: str, words: Collection[str]) -> list[Node]:
    return [["mark", piece] if is_word else piece for piece, is_word in mark_words(text, words)]
