"""What each function of `uec_rag.questions.grammar` is worth, by leaving it out.

    python -m benchmarks.quality.grammar DATA MANUALS

Each is replaced in turn by one that finds nothing; nothing is learned anew. Printed are the share
of right decisions on the manuals, and nDCG@10 of turns that depend on those before, see `proof`.
"""

from __future__ import annotations

from benchmarks.quality.first_week import KINDS
from benchmarks.quality.proof import answers, conversations
from benchmarks.quality.shared import Data, Manuals, replaced, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC

NOTHING = {"lacks_referent": False, "extract_concept": "", "refers_back": False}


def figures(label: str, uec: UEC, data: Data, manuals: Manuals) -> list[str]:
    """A row of the table."""
    told, turns = answers(uec, manuals), conversations(uec, data)
    shares = []
    for kind in KINDS:
        right = [one.right for one in told if one.kind == kind]
        shares.append(sum(right) / len(right))
    depend = [value for name, value in turns.items() if name.endswith("dependent")]
    return [label, *(f"{x:.3f}" for x in (*shares, sum(shares) / len(shares), *depend))]


def main(data: Data, manuals: Manuals) -> None:
    """Print the table."""
    uec = shipped()
    rows = [figures("all", uec, data, manuals)]
    for name, nothing in NOTHING.items():
        with replaced(f"questions.grammar.{name}", lambda *_, nothing=nothing: nothing):
            rows.append(figures(f"without {name}", uec, data, manuals))
    header = ["", *KINDS, "mean", "conv_pacific", "conv_cast", "conv_kdconv_zh"]
    print_table("Without a function of wording", header, rows)


if __name__ == "__main__":
    run_script(main)
