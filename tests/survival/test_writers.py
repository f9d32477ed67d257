"""Several writers of one index, killed at random: the model is the list of accepted writes."""

import os
import random
import shutil
import socket
import sys
import time
import warnings
from pathlib import Path

import httpx
import uvicorn

from tests.survival.in_a_child import FORKED, fork, kill
from tests.survival.scale import report, times
from uec_rag import UEC, Retriever
from uec_rag.cli import app
from uec_rag.cli import index as cli_index
from uec_rag.server import create_app

pytestmark = FORKED

SLOTS = 8  # passages of a writer, each written over and over
GOES = 5  # of so many versions one is that the passage is deleted
WRITERS = {"server": 3, "process": 2, "update": 2}


def text_of(writer, slot, version):
    return f"The mill of {writer} in yard {slot} has wheel {version}."


class Writers:
    """What writers of each kind do to make one passage be of a version."""

    def __init__(self, tmp_path, address):
        self.index, self.address = tmp_path / "index", address
        self.folder = tmp_path / "folder"
        self.folder.mkdir()
        self.client = None

    def server(self, writer, slot, version):
        if self.client is None:
            self.client = httpx.Client(base_url=self.address, timeout=30)
        if version % GOES:
            new = {"id": f"{writer}#{slot}", "text": text_of(writer, slot, version)}
            return self.client.post("/passages", json={"passages": [new]}).status_code == 201
        answer = self.client.delete("/passages", params={"id": f"{writer}#{slot}"})
        return answer.status_code in (200, 404)  # 404: it is not there

    def process(self, writer, slot, version):
        index = Retriever.load(self.index)
        if version % GOES:
            index.add([text_of(writer, slot, version)], [f"{writer}#{slot}"])
        else:
            index.delete([f"{writer}#{slot}"])
        return True

    def update(self, writer, slot, version):
        file = self.folder / f"{writer}-{slot}.txt"
        if version % GOES:
            new = self.folder / f".{file.name}"
            new.write_text(text_of(writer, slot, version))
            new.replace(file)
        else:
            file.unlink(missing_ok=True)
        command = ["index", str(self.folder), "--out", str(self.index), "--update"]
        return app(command, standalone_mode=False) != 2


class Child:
    """A forked process that says nothing; its work ends with it."""

    def __init__(self, work, *arguments):
        self.work, self.arguments = work, arguments
        self.pid = fork(self._run)

    def _run(self):
        warnings.simplefilter("ignore")
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        self.work(*self.arguments)

    def kill(self):
        assert os.WIFSIGNALED(kill(self.pid)), f"{self.work} ended by itself"


def serve(index, listening):
    """A worker as `uec-rag serve --write --workers` has several of one address."""
    made = create_app(Retriever.load(index), write=True)
    uvicorn.Server(uvicorn.Config(made, log_level="critical")).run([listening])


def write_on(write, log, writer, seed):
    """Write one version after the other, and note down when each is tried and accepted."""
    rng = random.Random(seed)
    tries = [int(line.split()[2]) for line in log.read_text().splitlines()]
    notes = os.open(log, os.O_WRONLY | os.O_APPEND)
    for version in range(max(tries, default=0) + 1, sys.maxsize):
        slot = rng.randrange(SLOTS)
        os.write(notes, f"tried {slot} {version}\n".encode())
        try:
            accepted = write(writer, slot, version)
        except httpx.TransportError:  # the server was killed, before it wrote or after
            continue
        except OSError:  # another one is writing
            accepted = False
        except BaseException as error:
            os.write(notes, f"failed {slot} {version} {error!r}\n".encode())
            raise
        if accepted:
            os.write(notes, f"accepted {slot} {version}\n".encode())
        else:
            os.write(notes, f"refused {slot} {version}\n".encode())
            time.sleep(rng.random() * 0.05)


def noted(logs):
    """What each writer noted down last of its versions: (writer, slot) -> version -> what."""
    found = {}
    for writer, log in logs.items():
        for line in log.read_text().splitlines():
            what, slot, version = line.split()[:3]
            assert what != "failed", line
            found.setdefault((writer, int(slot)), {})[int(version)] = what
    return found


def accepted_in(logs):
    """How many writes were accepted so far."""
    return sum(log.read_bytes().count(b"accepted") for log in logs.values())


def shown(writer, slot, version):
    """The text that a version leaves, None if the passage is deleted."""
    return text_of(writer, slot, version) if version % GOES else None


def check(index, logs):
    """Every passage is of the last version accepted, or of one that was tried after it.

    Of a writer that was killed, the server may still have a request, which it carries out later.
    """
    before = noted(logs)
    # Without the name of the file, with which the text begins.
    kept = [(p.metadata.get("source", p.id), p.text) for p in Retriever.load(index).passages()]
    saved = {name: text.split("\n\n")[-1] for name, text in kept}
    for (writer, slot), versions in noted(logs).items():
        of_before = before.get((writer, slot), {})
        last = max((n for n, what in of_before.items() if what == "accepted"), default=0)
        late = {n for n, what in of_before.items() if what == "tried"}
        if not writer.startswith("server"):
            late = set()
        allowed = {shown(writer, slot, n) for n in versions if n > last or n in late}
        allowed.add(shown(writer, slot, last) if last else None)
        name = f"{writer}-{slot}.txt" if writer.startswith("update") else f"{writer}#{slot}"
        assert saved.pop(name, None) in allowed, (
            f"{name}, {sorted(map(str, allowed))}: {sorted(versions.items())[-9:]}"
        )
    return saved


def test_what_was_accepted_of_several_writers_that_are_killed_is_kept(tmp_path, monkeypatch):
    wanted, rng, kills = times(60, 10_000), random.Random(0), 0
    monkeypatch.setattr(cli_index, "say", lambda said: None)
    made = Retriever(UEC(["bm25"]))
    made.add(["A document that nobody writes."], ["stays"])
    made.save(tmp_path / "index")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        writers = Writers(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}")
        names = [f"{kind}{n}" for kind, count in WRITERS.items() for n in range(count)]
        logs = {name: Path(tmp_path / f"{name}.log") for name in names}
        for log in logs.values():
            log.touch()
        children = [Child(serve, writers.index, listening) for _ in range(2)]
        for name in names:
            write = getattr(writers, name.rstrip("0123456789"))
            children.append(Child(write_on, write, logs[name], name, 0))
        begun = time.monotonic()
        try:
            while accepted_in(logs) < wanted:
                # A kill after some writes, on a busy machine, too, or where all wait for one.
                some, end = accepted_in(logs) + rng.randrange(1, 30), time.monotonic() + 30
                while accepted_in(logs) < some and time.monotonic() < end:
                    time.sleep(rng.random() * 0.2)
                place = rng.randrange(len(children))
                killed = children.pop(place)
                killed.kill()
                kills += 1
                *arguments, last = killed.arguments
                seed = last + 1 if killed.work is write_on else last
                children.insert(place, Child(killed.work, *arguments, seed))
                check(writers.index, logs)
        finally:
            for child in children:
                kill(child.pid)
    took = time.monotonic() - begun
    assert check(writers.index, logs) == {"stays": "A document that nobody writes."}
    found = noted(logs)
    of_kind = {
        kind: sum(
            [*versions.values()].count("accepted")
            for (writer, _), versions in found.items()
            if writer.startswith(kind)
        )
        for kind in WRITERS
    }
    count = accepted_in(logs)
    refused = sum(map(len, found.values())) - count
    report(
        f"{count} writes accepted of {of_kind} in {took:.0f} s, {refused} refused or cut off, "
        f"{kills} kills; none lost"
    )
    shutil.rmtree(tmp_path / "index")
