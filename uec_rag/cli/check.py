"""`uec-rag check`: verifying the checksums of an index."""

from uec_rag.base.checks import pluralize
from uec_rag.cli.console import Index, Json, check_index, print_json, print_text


def check(index: Index, json: Json = False) -> None:
    """Verify the checksums of an index: of its vectors, words, passages and ensemble.

    Example: uec-rag check idx
    """
    check_index(index)
    from uec_rag.retrieval.save import check_index as check_contents

    count = check_contents(index.absolute())
    if json:
        print_json({"path": str(index), "passages": count})
    else:
        print_text(f"{index}: {pluralize(count, 'passage')}, undamaged.")
