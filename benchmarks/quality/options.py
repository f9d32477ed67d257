"""What scripts share: collections that are judged, what is fitted on, where vectors are cached."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from uec_rag.encoders.packages import cache_folder

SETS = "fiqa_small,cranfield,claude_docs_rag,medline,cisi,belebele_en"
FITTED_ON = "tydiqa_goldp_en"
CACHE = cache_folder() / "embeddings"

Data: TypeAlias = Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")]
Models: TypeAlias = Annotated[
    list[str], typer.Option(help="A model to take in; give it several times.")
]
Fit: TypeAlias = Annotated[str, typer.Option(help="Collection whose train split is fitted on.")]
Sets: TypeAlias = Annotated[str, typer.Option(help="Collections to report, comma-separated.")]
Queries: TypeAlias = Annotated[int, typer.Option(help="Asked of each collection at most.")]
Cache: TypeAlias = Annotated[Path, typer.Option(help="Folder for the embedding cache.")]
Markdown: TypeAlias = Annotated[bool, typer.Option(help="Print as Markdown.")]
