"""Files that are written whole, and what may not be replaced by one."""

import os
import stat

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import write_whole


def test_what_is_no_regular_file_stays_what_it_is(tmp_path):
    # For root a rename would replace /dev/null itself.
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    with pytest.raises(EdgeformerError, match="no regular file"):
        write_whole(path, [b"text"])
    assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert os.listdir(str(tmp_path)) == ["pipe"]


def test_a_link_stays_and_what_it_names_is_written(tmp_path):
    target, link = str(tmp_path / "target"), str(tmp_path / "link")
    os.symlink(target, link)
    for content in (b"new", b"newer"):
        write_whole(link, [content])
        assert os.path.islink(link)
        with open(target, "rb") as file:
            assert file.read() == content


def test_a_private_file_stays_private(tmp_path):
    path = str(tmp_path / "file")
    write_whole(path, [b"first"])
    os.chmod(path, 0o600)
    write_whole(path, [b"second"])
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
