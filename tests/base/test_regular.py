"""Regular files are opened, and read up to the size that they had."""

import os

import pytest

from uec_rag.base.regular import NotRegularError, open_regular, pieces


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(NotRegularError, match="no regular file but a link"):
        open_regular(tmp_path / "link")
    with open_regular(tmp_path / "link", follow_symlinks=True) as file:
        assert file.read() == b"x"


@pytest.mark.parametrize("follow", [False, True])
def test_a_pipe_is_not_waited_for(tmp_path, follow):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(NotRegularError, match="no regular file but a pipe"):
        open_regular(tmp_path / "a", follow_symlinks=follow)


def test_what_takes_a_files_place_between_looking_and_opening_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("x")
    opened = os.open

    def swap(*given, **options):
        path.unlink()
        os.mkfifo(path)
        return opened(*given, **options)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(NotRegularError, match="no regular file but a pipe"):
        open_regular(path)


def test_a_file_that_grows_is_read_up_to_the_size_that_it_had(tmp_path):
    path = tmp_path / "a"
    path.write_text("x" * 10)
    with open_regular(path) as file:
        read = pieces(file, 10)
        path.write_text("x" * 1000)
        assert b"".join(read) == b"x" * 10
        with pytest.raises(OSError, match="became shorter"):
            [*pieces(file, 1000)]
