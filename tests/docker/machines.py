"""Boards and a docker that writes down how it was called, for the scripts of docker/."""

import json
import os
import shlex
import subprocess
import sys

from tests.device import boards
from tests.py36_grammar import ROOT
from tests.setup.machines import executable

FOLDER = os.path.join(ROOT, "docker")
DOCKER = """#!{python}
import json, os, sys
with open(os.environ["FAKE"] + "/calls", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
state = os.environ.get("FAKE_DOCKER", "")
if sys.argv[1:3] == ["image", "inspect"] and state in ("no image", "denied", "stopped"):
    sys.exit({{
        "no image": "Error: No such image: " + sys.argv[3],
        "denied": "permission denied while trying to connect to the Docker daemon socket",
        "stopped": "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
    }}[state])
if sys.argv[1] == "info":
    print("runc io.containerd.runc.v2 " + ("" if state == "no runtime" else "nvidia "))
if sys.argv[1:] == ["buildx", "version"] and state == "no buildx":
    sys.exit("docker: 'buildx' is not a docker command.")
if sys.argv[1] == "run":
    sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""


class Machine:
    """A root folder, a folder to work in with a bundle, and docker."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.root = os.path.join(self.folder, "root")
        self.work = os.path.join(self.folder, "work")
        executable(os.path.join(self.folder, "bin"), "docker", DOCKER.format(python=sys.executable))
        boards.write(self.work, "bundles/tiny/manifest.json", "{}")

    def run(self, script, *words, **environment):
        """(status, stdout, stderr) of a script of docker/, or of one at another place."""
        with open(os.path.join(self.folder, "calls"), "w"):
            pass
        own = {
            "PATH": os.path.join(self.folder, "bin") + ":/usr/bin:/bin",
            "HOME": os.path.join(self.folder, "home"),
            "FAKE": self.folder,
            "EDGEFORMER_ROOT": self.root,
        }
        own.update(environment)
        done = subprocess.run(
            ["bash", os.path.join(FOLDER, script), *words],
            env=own,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=120,
        )
        return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")

    def calls(self):
        with open(os.path.join(self.folder, "calls"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def started(self, *words, **environment):
        """The one `docker run` of docker/run.sh WORDS."""
        status, _, errors = self.run("run.sh", *words, **environment)
        assert status == 0, errors
        (call,) = [call for call in self.calls() if call[0] == "run"]
        return Started(call)

    def printed(self, *words, **environment):
        """The same of docker/run.sh --dry-run WORDS, from what it prints; docker is not called."""
        status, output, errors = self.run("run.sh", "--dry-run", *words, **environment)
        assert status == 0, errors
        assert not self.calls()
        return Started(shlex.split(output)[1:])


class Started:
    """A `docker run`, taken to pieces."""

    def __init__(self, words):
        self.words = list(words)
        rest, self.flags, self.values = list(words[1:]), [], {}
        alone = ("--rm", "--init", "--interactive", "--tty", "--no-healthcheck")
        while rest[0].startswith("-"):
            flag = rest.pop(0)
            if flag in alone:
                self.flags.append(flag)
            else:
                self.values.setdefault(flag, []).append(rest.pop(0))
        self.image, self.arguments = rest[0], rest[1:]

    def mounts(self):
        """{target: (source, writable)}"""
        found = {}
        for text in self.values.get("--mount", []):
            fields = dict(field.partition("=")[::2] for field in text.split(","))
            assert fields["type"] == "bind"
            assert fields["target"] not in found
            found[fields["target"]] = (fields["source"], "readonly" not in fields)
        return found


def nano(folder, release="7.4"):
    """A 4 GB Nano."""
    made = Machine(folder)
    boards.nano(made.root)
    return released(made, "32", release)


def orin(folder, major="36", release="4.3"):
    made = Machine(folder)
    boards.orin_nano(made.root)
    return released(made, major, release)


def orin_tree(machine, major):
    """Make an Orin Nano of a PC."""
    boards.orin_nano(machine.root)
    released(machine, major, "1.0")


def released(made, major, revision):
    text = "# R%s (release), REVISION: %s, GCID: 1, BOARD: generic, EABI: aarch64\n"
    boards.write(made.root, "etc/nv_tegra_release", text % (major, revision))
    boards.write(made.root, "usr/bin/tegrastats", "")
    boards.write(made.root, "dev/nvmap", "")
    return made


def pc(folder):
    made = Machine(folder)
    boards.pc(made.root)
    return made
