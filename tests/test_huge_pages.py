"""`--huge-pages`: what the process that loads the weights begins with."""

import json
import os
import sys

import pytest

from edgeformer.cli import huge_pages
from edgeformer.errors import EdgeformerError
from tests import bundles
from tests.test_cli import run

ASKED = "glibc.malloc.hugetlb=1"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A root whose kernel has the mode that is chosen of these."""
    monkeypatch.setattr(huge_pages, "libc_release", lambda: (2, 35))
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)

    def set_to(modes):
        (folder / "enabled").write_text(modes + "\n")
        return str(tmp_path)

    return set_to


def test_other_tunables_stay(kernel):
    root = kernel("always [madvise] never")
    assert huge_pages.environment({}, root) == {"GLIBC_TUNABLES": ASKED}
    given = {"GLIBC_TUNABLES": "glibc.malloc.check=3", "A": "b"}
    made = huge_pages.environment(given, root)
    assert made == {"GLIBC_TUNABLES": "glibc.malloc.check=3:" + ASKED, "A": "b"}
    assert huge_pages.environment(made, root) is None, "it has them: nothing to begin anew"
    with pytest.raises(EdgeformerError, match=r"says glibc\.malloc\.hugetlb=0; take"):
        huge_pages.environment({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}, root)


def test_a_system_without_huge_pages_says_what_to_do(kernel, monkeypatch, tmp_path):
    with pytest.raises(EdgeformerError, match="is set to never; run: echo madvise"):
        huge_pages.environment({}, kernel("always madvise [never]"))
    with pytest.raises(EdgeformerError, match="this kernel has none"):
        huge_pages.environment({}, str(tmp_path / "elsewhere"))
    monkeypatch.setattr(huge_pages, "libc_release", lambda: (2, 27))  # of Ubuntu 18.04, JetPack 4
    with pytest.raises(EdgeformerError, match=r"needs glibc 2\.35, this system has glibc 2\.27"):
        huge_pages.environment({}, kernel("[always] madvise never"))


def usable():
    try:
        return huge_pages.environment({}) is not None
    except EdgeformerError:
        return False


@pytest.mark.skipif(not usable(), reason="this system has no huge pages")
def test_both_verbs_begin_with_them_and_say_the_same():
    asked = ("generate", bundles.ROPE, "the cat", "--max-new-tokens", "5")
    plain, found = run(*asked), run(*asked, "--huge-pages")
    assert found[:2] == plain[:2] and found[0] == 0
    status, out, err = run(
        *("bench", bundles.ROPE, "--rounds", "1", "--new-tokens", "4", "--huge-pages", "--json")
    )
    assert status == 0, err
    assert json.loads(out.splitlines()[-1].decode())["machine"]["glibc_tunables"] == ASKED


def test_the_command_is_begun_again_as_it_was(kernel, monkeypatch):
    root = kernel("[always] madvise never")
    begun = []
    monkeypatch.setattr(huge_pages.memory, "huge_page_mode", lambda _: "always")
    monkeypatch.setattr(os, "execve", lambda *words: begun.append(words))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    huge_pages.start_again(["generate", "a bundle", "--huge-pages"])
    ((program, words, given),) = begun
    assert program == sys.executable
    assert words == [sys.executable, "-m", "edgeformer", "generate", "a bundle", "--huge-pages"]
    assert huge_pages.environment(given, root) is None
