"""The readings of a question: parts of the outline of its hits, by names to choose among.

`readings` has the parts that a user is asked about, `closest_sections` those beside which there may
be an answer. Each is named by its own name, and by what tells it from the others.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, takewhile

import numpy as np

from uec_rag.base.logistic import NEARLY
from uec_rag.base.text import split_words, stems
from uec_rag.clarify.outline import Name, Node, Outline, bare
from uec_rag.clarify.titles import labels_of
from uec_rag.questions.languages import small_words
from uec_rag.questions.replies import LONGEST_LABEL, MOST_READINGS, Reading, shorten

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_OFFERED = 0.02  # share of the mass with which a child is a reading


def readings(node: Node) -> list[Reading]:
    """Return the children of a node with the best hits, at most four, of 2 % of its mass or more.

    Those of one document are one, unless it has nearly all of the mass. If the question is a name
    that several of them share, it means one of these; else one whose first hit has half as much of
    the question, by idf, as any.
    """
    node, places = _choose(node)
    return _readings_of(node, places[:MOST_READINGS])


def _choose(node: Node) -> tuple[Node, list[int]]:
    """Return a node with the children of a document as one, and which of them are readings."""
    node, outline = _by_document(node) if node.tells else node, node.outline
    places = [at for at, share in enumerate(node.shares) if share >= _OFFERED]
    mask = (2 * node.in_names[places] - 1) @ outline.rarity >= 0  # half of it or more
    if places and np.count_nonzero(mask) < 2:
        rows = [node.children[at][0] for at in places]
        titles = np.array([outline.in_name[outline.titles[row]] for row in rows])
        has = (outline.in_text[rows] | titles) @ outline.rarity
        mask = has >= has.max() / 2
    if np.count_nonzero(mask) > 1:
        places = [at for at, of in zip(places, mask.tolist(), strict=True) if of]
    return node, places


def says_which(node: Node) -> bool:
    """Return whether a question says which readings it means, though its words are few.

    It compares them; or the first has nearly all of the mass, and if they are statements, a word of
    the question that no other has; or the first alone has its name, of statements its rarest word,
    or its small word: "after the meal" is not before it; or the others say no more than one, or the
    same with another value: that is one fact.
    """
    outline, is_one = node.outline, node.shares[0] > NEARLY
    if is_one and not outline.are_statements(node.children[0]):
        return True
    of = [rows for rows, share in zip(node.children, node.shares, strict=True) if share >= _OFFERED]
    small = small_words(outline.language)
    content = np.array([word in outline.content for word in outline.idf], bool)
    names = {word for word in outline.content if word[0].isupper()}
    little = np.array([w.casefold() in small or w in names for w in outline.idf], bool)
    counts = content if is_one else np.zeros_like(content)
    texts = np.array([outline.in_text[rows].any(axis=0) for rows in of])
    if outline.are_statements([rows[0] for rows in of]):
        rarity = np.where(content, outline.rarity, 0.0)
        counts |= content & (rarity >= rarity.max(initial=0.0))
    alone = texts[0] & ~texts[1:].any(axis=0) & (counts | little)
    is_said = len(of) > 1 and bool(alone.any())
    return is_said or _compares(node) or _repeats(node)


def _compares(node: Node) -> bool:
    """Return whether each of some statements alone has a word of the question, which compares."""
    node, places = _choose(node)
    outline, rows = node.outline, [node.children[at][0] for at in places]
    is_content = np.array([word in outline.content for word in outline.idf], bool)
    has = outline.in_text[rows] & is_content
    alone = has & (has.sum(axis=0) == 1)
    return (
        len(rows) > 1
        and bool(alone.any(axis=1).all())
        and not any(map(outline.titles.__getitem__, rows))
    )


def _repeats(node: Node) -> bool:
    """Return whether all readings are statements without a title that say no more than one.

    Those that differ in one value alone contradict each other, and their names would be the answer.
    What only asks, as a ticket does, says nothing.
    """
    node, places = _choose(node)
    outline, rows = node.outline, [node.children[at][0] for at in places]
    texts = [outline.texts[row] for row in rows]
    are_plain = outline.are_statements(rows) and not any(outline.titles[row] for row in rows)
    if not are_plain or len(rows) == 1:
        return False
    texts = [text for text in texts if "?" not in text] or texts
    metadatas = (outline.metadatas[row] for row in rows if outline.metadatas)
    are_told = len({json.dumps(values, default=repr) for values in metadatas}) > 1
    bags, values = [*map(stems, texts)], [*zip(*map(_NUMBER.findall, texts), strict=False)]
    is_one_value = sum(len({*column}) > 1 for column in values) == 1
    are_alike = (
        is_one_value and not are_told and len({_NUMBER.sub("#", text) for text in texts}) == 1
    )
    return are_alike or any(all(bag <= whole for bag in bags) for whole in bags)


def _by_document(node: Node) -> Node:
    """Return a node with the children of each document as one, those with the best hits first.

    They are not one if a document has nearly all of the mass.
    """
    outline, mass, of = node.outline, node.outline.mass.tolist(), dict[object, list[int]]()
    for child in node.children:
        about = [outline.described[row] for row in child]
        sources = {hit.source or hit.document for hit in about}
        is_one = len(sources) == 1 and "" not in sources
        of.setdefault(min(sources) if is_one else child[0], []).extend(child)
    whole = sum(map(mass.__getitem__, chain(*node.children)))
    is_split = max(sum(map(mass.__getitem__, rows)) for rows in of.values()) < NEARLY * whole
    groups = of.values() if is_split else node.children
    children = [sorted(rows, key=mass.__getitem__, reverse=True) for rows in groups]
    children.sort(key=lambda rows: mass[rows[0]], reverse=True)
    shares = [sum(map(mass.__getitem__, rows)) / whole for rows in children]
    return Node(outline, children, shares, node.depth, node.tells)


def closest_sections(node: Node, count: int = MOST_READINGS) -> list[Reading]:
    """Name the first different sections of the hits, for a question that none answers."""
    outline, groups = node.outline, dict[object, list[int]]()
    for row, keys in enumerate(outline.keys):
        groups.setdefault(keys or row, []).append(row)
    has_titles = any(outline.titles)
    sections = outline.apart([*groups.values()], are_named=has_titles)[:count]
    total = float(outline.mass.sum())
    shares = [float(outline.mass[group].sum()) / total for group in sections]
    depth = max(map(len, outline.paths))
    return _readings_of(Node(outline, sections, shares, depth, has_titles), range(len(sections)))


def _readings_of(node: Node, places: Sequence[int]) -> list[Reading]:
    """Make readings of some children: by their names, and the sections that alone matter.

    A folder gives way to the title of its first hit, if that says more of the question. A name
    without a word of the question has its document's in front.
    """
    outline, readings = node.outline, dict[str, Reading]()
    groups, shares = [node.children[at] for at in places], [node.shares[at] for at in places]
    depth = node.depth + 1
    whole = [zip(*(outline.paths[row][:depth] for row in rows), strict=False) for rows in groups]
    paths = [[names[0] for names in takewhile(lambda n: len({*n}) == 1, ps)] for ps in whole]
    if len(groups) > 1 and paths.count(paths[0]) == len(paths):  # which names no part alone
        paths = [[] for _ in groups]
    names = [_name_of(outline, *of, depth) for of in zip(groups, paths, strict=True)]
    labels = _labels(node, groups, names)
    if not node.tells:
        names = [""] * len(groups)
    plain = [*map(bare, names)]
    documents = [_document(outline, rows[0]) for rows in groups]
    for rows, path, name, document, share, label in zip(
        groups, paths, names, documents, shares, labels, strict=True
    ):
        alike = [p for p, label in zip(paths, plain, strict=True) if label == bare(name)]
        apart = [
            up.text
            for at, up in enumerate(path)
            if [p[at : at + 1] for p in alike].count([up]) == 1 and len(alike) > 1
        ]
        if name != outline.titles[rows[0]] or not _weight_in(outline, name):
            apart += [up.text for up in path[node.depth :] or path[-1:]]
        if len({*documents}) > 1 and not _weight_in(outline, name):
            apart.append(document)
        above = next((up for up in apart if name and up and not _is_said(up, name)), "")
        name = f"{shorten(above, LONGEST_LABEL // 2)}: {name}" if above else name
        title = (shorten(name) if name else label) or outline.ids[rows[0]]
        ids = tuple([outline.ids[row] for row in rows])
        if title in readings and name:  # nobody could choose between the two
            ids, share = (*readings[title].ids, *ids), readings[title].probability + share
        elif title in readings:
            title = f"{title} ({rows[0] + 1})"
        readings[title] = Reading(title, ids, share)
    return [*readings.values()]


def _labels(node: Node, groups: Sequence[Sequence[int]], names: Sequence[str]) -> list[str]:
    """Return the labels of the groups that have no name, or but the name of a file; else ""."""
    outline, best = node.outline, [rows[0] for rows in groups]
    places = [at for at, name in enumerate(names) if not (name and node.tells)]
    rows = [best[at] for at in places]
    files = [names[at] for at in places] if all(names) else []
    metadatas = [outline.metadatas[row] for row in rows] if outline.metadatas else []
    texts = [outline.texts[row] for row in rows]
    labels = iter(labels_of(texts, [*outline.idf], outline.language, files, metadatas))
    return [next(labels) if at in places else "" for at in range(len(groups))]


def _name_of(outline: Outline, rows: Sequence[int], path: Sequence[Name], depth: int) -> str:
    """Return the name of some hits, which are below a path; "" if they have none."""
    if not path or (name := _section(outline, rows, depth)):
        return name if path else ""
    name, title = path[-1].text, outline.titles[rows[0]]
    is_wide = not path[-1].is_title or name == _document(outline, rows[0])  # a folder, a document
    return title if is_wide and _weight_in(outline, title) > _weight_in(outline, name) else name


def _weight_in(outline: Outline, name: str) -> float:
    """Return how much of the content of the question, by rarity, a name or title says."""
    words = zip(outline.idf, outline.rarity.tolist(), outline.in_name.get(name, ()), strict=False)
    return sum(float(rarity) for word, rarity, has in words if has and word in outline.content)


def _document(outline: Outline, row: int) -> str:
    """Return the title of a hit's document; "" if it has none but the name of its file."""
    about = outline.described[row]
    key = about.source or about.document
    return next((up.text for up in outline.paths[row] if up.is_title and up.key == key), "")


def _section(outline: Outline, rows: Sequence[int], depth: int) -> str:
    """Return the title of nearly all of the mass of some hits, else a name; "" if none."""
    threshold = NEARLY * float(outline.mass[rows].sum())
    for at in (None, *range(max(len(outline.paths[row]) for row in rows), depth, -1)):
        mass = Counter[str]()
        for row in rows:
            names = outline.paths[row][at - 1 : at] if at else ()
            mass[names[0].text if names else "" if at else outline.titles[row]] += outline.mass[row]
        (title, weight), *_ = mass.most_common(1)
        if title and weight >= threshold:
            return title
    return ""


def _is_said(name: str, title: str) -> bool:
    """Return whether a title has all words of a name."""
    return {*split_words(name.casefold())} <= {*split_words(title.casefold())}
