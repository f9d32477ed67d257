"""Ask manuals of two packages that decide whether to answer, in an environment of their own.

`rivals` runs this file there, with a list of {"folder", "passages": {id: text}, "questions"} as
JSON on stdin; for each it prints a line, by system, of the score, the ids of the first passages and
whether it answers, of each question. Nothing else of this project is imported.
"""

import json
import sys
from pathlib import Path

import cairn
from cairn.core.config import load_config
from cairn.pipeline import Pipeline
from rerankgate import Document, PipelineConfig, RAGPipeline

HITS = 4
LONGEST = 100_000  # characters of a passage, none of which is cut again


def rerankgate(task):
    """Ask rerankgate without vectors, as it is installed."""
    pipe = RAGPipeline(PipelineConfig(use_vectors=False, chunk_size=LONGEST, chunk_overlap=0))
    pipe.ingest([Document(id=id_, text=text) for id_, text in task["passages"].items()])
    for question in task["questions"]:
        result = pipe.ask(question)
        ids = [hit.chunk.doc_id for hit in result.evidence]
        yield result.gate.score, ids, result.verdict == "answerable"


def cairn_pipeline(task, mode):
    """Ask cairn with its stub for a model, by a bundled configuration of another `mode`."""
    folder = Path(task["folder"])
    files, known = folder / "corpus", {}
    files.mkdir(parents=True, exist_ok=True)
    for number, (id_, text) in enumerate(task["passages"].items()):
        known[f"{number}.txt"] = id_
        (files / f"{number}.txt").write_text(text, encoding="utf-8")
    bundled = Path(cairn.__file__).parent / "configs" / f"{mode}.yaml"
    settings = bundled.read_text(encoding="utf-8").replace("../.cairn/", f"{folder}/{mode}/")
    settings = settings.replace("../data/sample/corpus", str(files))
    (folder / f"{mode}.yaml").write_text(settings, encoding="utf-8")
    pipe = Pipeline.from_config(load_config(folder / f"{mode}.yaml"))
    pipe.ingest()
    pipe.load_index()
    for question in task["questions"]:
        said = pipe.answer(question, threshold=0.0, use_calibration=False)
        names = (Path(hit.chunk.source).name for hit in said.passages)
        yield said.confidence, [known[name] for name in names], True


def answers(task):
    """Ask each system the questions of a manual."""
    yield "rerankgate", rerankgate(task)
    for mode in ("bm25", "hybrid-hashing"):
        yield f"cairn-pipeline, {mode}", cairn_pipeline(task, mode)


def main():
    """Answer on stdout."""
    for task in json.load(sys.stdin):
        told = {
            name: [(score, [*dict.fromkeys(ids)][:HITS], bool(says)) for score, ids, says in rows]
            for name, rows in answers(task)
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
