"""Docker's own client, without a daemon: it takes our flags, and sends what .dockerignore lets it.

A server of ours stands for the daemon. It answers that it lives, and keeps the tar of a build.
"""

import http.server
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading

import pytest

from tests.device import boards
from tests.docker import machines
from tests.py36_grammar import ROOT

CLIENT = shutil.which("docker")
TINY = "bundles/tiny"
needs_client = pytest.mark.skipif(CLIENT is None, reason="NOT RUN: no docker client")


ASKED = []  # (method, path, body)


class Daemon(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Api-Version", "1.41")  # Docker 20.10's
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while True:
            size = int(self.rfile.readline(), 16)
            whole += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return whole

    def do_GET(self):
        ASKED.append((self.command, self.path, self.body()))
        if "_ping" in self.path:
            self.answer(200, b"OK")
        else:
            self.answer(500, b'{"message": "this is no Docker"}')

    do_HEAD = do_POST = do_GET

    def log_message(self, *words):
        pass


@pytest.fixture
def daemon():
    del ASKED[:]
    server = http.server.HTTPServer(("127.0.0.1", 0), Daemon)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "tcp://127.0.0.1:%d" % server.server_port
    server.shutdown()
    server.server_close()


def client(words, daemon, **environment):
    """What Docker's client says of a command."""
    own = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "DOCKER_HOST": daemon}
    own.update(environment)
    done = subprocess.run(
        [CLIENT, *words],
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    return done.stdout.decode("utf-8")


@needs_client
@pytest.mark.parametrize("make", [machines.nano, machines.orin, machines.pc])
def test_dockers_own_client_takes_every_flag_of_run(make, daemon, tmp_path):
    machine = make(tmp_path)
    boards.write(machine.work, "schema.json", "{}")
    words = ["--json-schema", "schema.json", "-n", "2"]
    started = machine.printed("generate", TINY, "-x y", *words)
    told = client(started.words, daemon)
    assert "this is no Docker" in told, told
    (asked,) = [asked for asked in ASKED if "/containers/create" in asked[1]]
    made = json.loads(asked[2].decode("utf-8"))
    host = made["HostConfig"]
    board = make is not machines.pc
    assert made["Cmd"] == started.arguments and made["Image"] == started.image
    assert (host.get("Runtime", ""), host["NetworkMode"]) == ("nvidia" if board else "", "none")
    assert host["Init"] and host["AutoRemove"] and not host["Privileged"]
    assert bool(host["GroupAdd"]) == board and host["DeviceRequests"] is None
    assert made["Healthcheck"] == {"Test": ["NONE"]}
    mounts = {one["Target"]: (one["Source"], not one.get("ReadOnly")) for one in host["Mounts"]}
    assert mounts == started.mounts() and mounts["/files/schema.json"][1] is False


@needs_client
def test_dockers_own_client_refuses_what_it_does_not_know(daemon):
    assert "unknown flag" in client(["run", "--no-such-flag", "x"], daemon)


@needs_client
def test_the_classic_builder_is_sent_docker_and_the_wheel_alone(daemon, tmp_path):
    place = str(tmp_path / "place")
    shutil.copytree(machines.FOLDER, os.path.join(place, "docker"))
    shutil.copy(os.path.join(ROOT, ".dockerignore"), place)
    wheel = "dist/edgeformer-1.0-py3-none-any.whl"
    for name in (
        wheel,
        "dist/edgeformer-board-x.tar.gz",
        "dist/sub/x.txt",
        "bundles/a/weights.bin",
    ):
        boards.write(place, name, "x")
    for name in (".venv/x", ".git/config", "edgeformer/__init__.py", "README.md", "notes.whl"):
        boards.write(place, name, "x")
    words = ["build", "--file", place + "/docker/Dockerfile.r32", "--tag", "edgeformer:r32"]
    words += ["--build-arg", "REGISTRY=mirror.example", place]
    told = client(words, daemon, DOCKER_BUILDKIT="0")
    assert "this is no Docker" in told, told
    (asked,) = [asked for asked in ASKED if "/build?" in asked[1]]
    assert "dockerfile=docker%2FDockerfile.r32" in asked[1] and "t=edgeformer%3Ar32" in asked[1]
    with tarfile.open(fileobj=io.BytesIO(asked[2])) as sent:
        names = {member.name for member in sent if member.isfile()}
    ours = {"docker/" + name for name in os.listdir(machines.FOLDER)}
    # The client adds its own list, which it takes away again on the other side.
    assert {name for name in names if not re.match(r"\.dockerignore", name)} == ours | {wheel}
