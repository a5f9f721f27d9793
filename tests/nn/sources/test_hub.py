"""Hub ids, without a network: the cache that the hub's package keeps, and errors that help."""

import os
import subprocess
import sys

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from tests.nn.families.models import logit_error, reference

OPEN = """
import sys
from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources import open_source
try:
    print(open_source(sys.argv[1]).where)
except EdgeformerError as error:
    print("refused:", error)
"""


def opened(hub_id, cache, **environment):
    """In a process of its own: the package reads its environment when it is imported."""
    ran = subprocess.run(
        [sys.executable, "-c", OPEN, hub_id],
        env=os.environ | {"HF_HOME": str(cache)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=120,
        check=True,
    )
    return ran.stdout.decode().strip()


@pytest.fixture
def cache(tmp_path):
    """What `hf download tiny/llama` leaves behind: files by their hash, links by their names."""
    model = tmp_path / "hub" / "models--tiny--llama"
    snapshot = model / "snapshots" / ("c" * 40)
    for folder in (snapshot, model / "blobs", model / "refs"):
        folder.mkdir(parents=True)
    (model / "refs" / "main").write_text("c" * 40)
    reference("llama-mha").save_pretrained(tmp_path / "saved")
    for i, path in enumerate(sorted((tmp_path / "saved").iterdir())):
        blob = model / "blobs" / f"{i:040d}"
        path.rename(blob)
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    return tmp_path


def test_a_model_in_the_cache_is_found_offline(cache):
    where = opened("tiny/llama", cache, HF_HUB_OFFLINE="1")
    assert where.endswith("models--tiny--llama/snapshots/" + "c" * 40)
    assert logit_error(reference("llama-mha"), load_decoder(open_source(where))) <= 1e-4
    assert opened("tiny/llama@" + "c" * 40, cache, HF_HUB_OFFLINE="1") == where


def test_offline_the_error_says_how_to_bring_the_files(tmp_path):
    said = opened("tiny/other", tmp_path, HF_HUB_OFFLINE="1")
    assert "`tiny/other` is no local folder, and the hub cannot be reached" in said
    assert "hf download tiny/other --local-dir FOLDER" in said


def test_without_a_network_the_error_is_the_same(tmp_path):
    """Nothing listens on port 9 of this machine."""
    said = opened(
        "tiny/other", tmp_path, HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9", no_proxy="*"
    )
    assert said.startswith("refused: `tiny/other` is no local folder, and the hub cannot be re")


def test_a_local_folder_goes_before_the_hub(tmp_path, monkeypatch):
    reference("llama-mha").save_pretrained(tmp_path / "tiny" / "llama")
    monkeypatch.chdir(tmp_path)
    assert open_source("tiny/llama").where == "tiny/llama"


@pytest.mark.parametrize("name", ["llama", "a/b/c", "./tiny/none", "/tiny/none", "a/../b", "a b/c"])
def test_what_is_no_hub_id_is_not_looked_up(name):
    with pytest.raises(EdgeformerError, match="does not exist"):
        open_source(name)
