"""Saved folders are whole at every moment, and nothing but ours is ever touched."""

import contextlib
import errno
import os
import re
import shutil
import signal
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers import data_of, python
from tests.helpers import files_of as generation
from uec_rag.base.errors import IndexCorrupted, SavedMeanwhile
from uec_rag.base.saved.generations import (
    is_last,
    locked_for_saving,
    read_generation,
    write_generation,
)
from uec_rag.base.saved.manifest import GENERATIONS, MANIFEST, read_manifest

KIND = "test thing"
OURS = {MANIFEST, GENERATIONS}
LOCK = {".lock"}  # which some versions of filelock take away once it is free


def save(path, text, kind=KIND):
    with write_generation(path, kind) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "text.txt").write_text(text)
        (folder / "same.txt").write_text("always the same")


def load(path, **options):
    with read_generation(path, KIND, **options) as folder:
        return (folder / "inner" / "text.txt").read_text()


def contents(path):
    return {
        str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()
    }


def fail(path, error):
    with write_generation(path, KIND) as folder:
        (folder / "half.txt").write_text("half")
        raise error


def test_a_folder_is_written_read_back_and_replaced_whole(tmp_path):
    path = tmp_path / "deep" / "saved"
    with write_generation(path, KIND) as folder:
        (folder / "old only").write_text("x")
    save(path, "new")
    assert load(path) == "new"
    assert set(os.listdir(path)) - LOCK == OURS
    assert set(read_manifest(path).files) == {"inner/text.txt", "same.txt"}
    assert len(os.listdir(path / GENERATIONS)) == 1


def test_a_file_that_is_as_it_was_is_linked_and_a_damaged_one_mended(tmp_path):
    save(tmp_path, "one")
    before = generation(tmp_path)
    inodes = {name: (before / name).stat().st_ino for name in ("same.txt", "inner/text.txt")}
    save(tmp_path, "two")
    after = {name: (generation(tmp_path) / name).stat().st_ino for name in inodes}
    assert [name for name in inodes if after[name] == inodes[name]] == ["same.txt"]
    (generation(tmp_path) / "same.txt").write_text("always the sane")
    save(tmp_path, "two")
    assert (generation(tmp_path) / "same.txt").read_text() == "always the same"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_folder_and_nothing_else(tmp_path, error):
    save(tmp_path, "old")
    before = contents(tmp_path)
    with pytest.raises(type(error)):
        fail(tmp_path, error)
    assert contents(tmp_path) == before
    assert load(tmp_path) == "old"


@pytest.mark.parametrize("there", [False, True])
def test_a_first_save_that_fails_leaves_what_was_there(tmp_path, there):
    path = tmp_path / "deep" / "saved"
    if there:
        path.mkdir(parents=True)
    with pytest.raises(OSError, match="disk full"):
        fail(path, OSError("disk full"))
    assert not list(path.iterdir()) if there else not list(tmp_path.iterdir())


def test_everything_is_on_the_disk_before_the_manifest_names_it(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace
    save(tmp_path, "old")

    def noted(handle):
        order.append(os.fstat(handle).st_ino)
        fsync(handle)

    def swapped(source, target):
        if Path(target) == tmp_path / MANIFEST:
            order.append("swap")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", swapped)
    save(tmp_path, "new")
    swap = order.index("swap")
    new = generation(tmp_path)
    first = [new / "inner" / "text.txt", new / "inner", new, tmp_path / MANIFEST, new.parent]
    assert {path.stat().st_ino for path in first} <= set(order[:swap])
    assert order[swap + 1 :] == [tmp_path.stat().st_ino]


@pytest.mark.parametrize(
    "taken_by", ["file", "other files", "another kind", "another manifest", "another's generations"]
)
def test_what_is_not_a_saved_thing_of_this_kind_is_never_replaced(tmp_path, taken_by):
    path = tmp_path / "precious"
    if taken_by == "file":
        path.write_text("mine")
    elif taken_by == "another kind":
        save(path, "mine", kind="another thing")
    elif taken_by == "another's generations":
        (path / GENERATIONS / "first").mkdir(parents=True)
    else:
        path.mkdir()
        (path / "mine.txt").write_text("mine")
        if taken_by == "another manifest":
            (path / MANIFEST).write_text('{"name": "an app"}')
    before = path.read_text() if path.is_file() else contents(path)
    with pytest.raises(FileExistsError, match=r"path: .*precious' exists and is not a saved test"):
        save(path, "new")
    assert (path.read_text() if path.is_file() else contents(path)) == before


def test_what_the_user_has_put_into_the_folder_stays(tmp_path):
    save(tmp_path, "old")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / GENERATIONS / "mine").mkdir()
    save(tmp_path, "new")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / GENERATIONS / "mine").is_dir()
    assert load(tmp_path) == "new"


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(tmp_path / "link", "one")
    save(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real") == load(tmp_path / "link") == "two"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "saved", "x")
    finally:
        os.umask(before)
    for path in [tmp_path / "saved", *(tmp_path / "saved").rglob("*")]:
        expected = 0o750 if path.is_dir() else 0o640
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_what_a_killed_save_left_is_collected_by_the_next(tmp_path):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from uec_rag.base.saved.generations import write_generation\n"
        "with write_generation(Path(sys.argv[1]), 'test thing') as folder:\n"
        "    (folder / 'half.txt').write_text('half'); os._exit(9)"
    )
    for _ in range(2):
        assert python(code, tmp_path / "saved").returncode == 9
    save(tmp_path / "saved", "whole")
    assert load(tmp_path / "saved") == "whole"
    assert len(os.listdir(tmp_path / "saved" / GENERATIONS)) == 1


def test_a_reader_keeps_its_generation_while_others_save(tmp_path):
    save(tmp_path, "one")
    with read_generation(tmp_path, KIND) as folder:
        save(tmp_path, "two")
        save(tmp_path, "three")
        assert (folder / "inner" / "text.txt").read_text() == "one"
        assert load(tmp_path) == "three"
        assert len(os.listdir(tmp_path / GENERATIONS)) == 2
    save(tmp_path, "four")
    assert len(os.listdir(tmp_path / GENERATIONS)) == 1


def test_a_second_who_saves_there_meanwhile_is_told(tmp_path):
    with write_generation(tmp_path, KIND) as folder:
        (folder / "first.txt").write_text("first")
        with pytest.raises(BlockingIOError, match="another process or thread is saving a test th"):
            save(tmp_path, "second")
    with read_generation(tmp_path, KIND) as folder:
        assert (folder / "first.txt").read_text() == "first"


def test_what_was_loaded_is_saved_only_while_it_is_the_last(tmp_path):
    path, link = tmp_path / "saved", tmp_path / "link"
    save(path, "one")
    link.symlink_to(path)
    with read_generation(path, KIND) as folder:
        first, second = (SimpleNamespace(saved_as=(folder.absolute(),)) for _ in range(2))

    def save_again(thing, where):
        with write_generation(where, KIND, of=thing) as generation:
            (generation / "text.txt").write_text("more")

    for where in (link, path, tmp_path / "backup", link):
        save_again(first, where)
    last = read_manifest(path)
    with pytest.raises(SavedMeanwhile, match="was saved by another process since it was loaded"):
        save_again(second, link)
    save_again(second, tmp_path / "elsewhere")
    with pytest.raises(SavedMeanwhile):
        save_again(second, path)
    assert read_manifest(path) == last
    assert not is_last(folder)
    assert is_last(path / last.generation)


@pytest.mark.parametrize("ends", ["in the middle", "after the swap"])
def test_a_save_that_failed_may_be_made_again(tmp_path, monkeypatch, ends):
    save(tmp_path, "old")
    thing, replace = SimpleNamespace(saved_as=()), os.replace

    def interrupted(source, target):
        replace(source, target)
        if Path(target) == tmp_path / MANIFEST:
            raise KeyboardInterrupt

    for broken in (True, False, True, False):
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            if broken and ends == "after the swap":
                patched.setattr(os, "replace", interrupted)
            with write_generation(tmp_path, KIND, of=thing) as generation:
                (generation / "text.txt").write_text("text")
                if broken and ends == "in the middle":
                    raise KeyboardInterrupt
    assert thing.saved_as == (generation,)
    assert is_last(generation)


def test_of_a_folder_that_is_kept_from_others_one_save_at_a_time_is_this_threads(tmp_path):
    save(tmp_path, "one")
    with ThreadPoolExecutor(1) as another, locked_for_saving(tmp_path, KIND):
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                another.submit(save, tmp_path, "theirs").result()
            save(tmp_path, "ours")
    with write_generation(tmp_path, KIND), pytest.raises(BlockingIOError):
        save(tmp_path, "inner")
    save(tmp_path, "after")
    assert load(tmp_path) == "after"
    with pytest.raises(FileNotFoundError), locked_for_saving(tmp_path / "nowhere", KIND):
        raise AssertionError("there is none")


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
@pytest.mark.parametrize("error", [RuntimeError("cut off"), OSError("9 requested and 3 written")])
def test_a_disk_that_takes_no_more_is_said_whatever_a_library_says(tmp_path, error):
    import resource

    save(tmp_path, "old")
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), contents(tmp_path)
    taken = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill():
        with write_generation(tmp_path, KIND) as folder:
            (folder / "half.txt").write_bytes(bytes(100_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
            raise error

    try:
        with pytest.raises(OSError, match=r"0\.1 MB.*make room and save the test thing") as told:
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, taken)
    assert (told.value.errno, told.value.__cause__) == (errno.EFBIG, error)
    assert contents(tmp_path) == before


def damage(path, how):
    file = generation(path) / "inner" / "text.txt"
    texts = {"truncated": "hel", "grown": "hello hello", "flipped": "hellp"}
    linked = {"linked": file, "folder linked": file.parent, "generation linked": generation(path)}
    if not isinstance(how, str):
        manifest = (path / MANIFEST).read_text()
        (path / MANIFEST).write_text(manifest.replace(*how))
    elif how in texts:
        file.write_text(texts[how])
    elif how == "missing":
        file.unlink()
    elif how in linked:
        shutil.move(linked[how], path / "elsewhere")
        linked[how].symlink_to(path / "elsewhere")
    elif how == "generation missing":
        shutil.rmtree(generation(path))
    elif how == "pipe":
        file.unlink()
        os.mkfifo(file)
    elif how == "one more":
        (generation(path) / "profile.npy").write_text("x")


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        *data_of("damages.json"),
        (('"kind"', " " * 2**24 + '"kind"'), "manifest.json' is longer than 16777216 bytes"),
    ],
)
def test_a_folder_that_is_not_whole_is_not_read(tmp_path, how, message, verify):
    save(tmp_path, "hello")
    damage(tmp_path, how)
    with pytest.raises(IndexCorrupted, match=re.escape(message)):
        load(tmp_path, verify=verify)


def test_what_is_not_there_or_of_another_kind_or_contents_is_not_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path: no saved test thing at .*nowhere"):
        load(tmp_path / "nowhere")
    save(tmp_path / "cake", "x", kind="cake")
    with pytest.raises(IndexCorrupted, match="holds a saved cake, expected a saved test thing"):
        load(tmp_path / "cake")
    path = tmp_path / "saved"
    save(path, "hello")
    damage(path, "flipped")
    with pytest.raises(IndexCorrupted, match=r"text\.txt' has other contents than were saved"):
        load(path)
    assert load(path, verify=False) == "hellp"
