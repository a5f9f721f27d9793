"""Fake boards for jetson_setup.sh: a root folder, and programs that change it as the real ones do.

Every program writes its command line into `calls`, and can kill the whole run before or after its
n-th command, as a lost supply would.
"""

import os
import shutil
import stat
import subprocess

from tests.device import boards
from tests.device.doctor import fakes
from tests.py36_grammar import ROOT

SCRIPT = os.path.join(ROOT, "jetson_setup.sh")
MB = 1 << 20

# The first lines of every program: count, and die where that is wanted.
BEGIN = """#!/bin/bash
me=${0##*/}
words=$*
echo "$me ${words//$'\n'/ }" >>"$FAKE/calls"
number=$(grep -c . "$FAKE/calls")
[ "$KILL" != "before $number" ] || kill -9 0
done_with() { [ "$KILL" != "after $number" ] || kill -9 0; exit "${1:-0}"; }
R=$EDGEFORMER_ROOT
"""
REAL = """PATH=/usr/bin:/bin "$me" "$@"; done_with $?
"""
PROGRAMS = {
    "cp": REAL,
    "mv": REAL,
    "rm": REAL,
    "mkdir": REAL,
    "chmod": REAL,
    "tee": REAL,
    "sync": "done_with\n",
    "uname": 'if [ "$1" = -m ]; then echo "${FAKE_ARCH:-aarch64}"; else echo Linux; fi\n',
    "df": 'echo "Filesystem M Used Free"; echo "/dev/root 1 1 ${FAKE_FREE:-20000} 1% /"\n',
    "fallocate": """[ -z "$FAKE_FULL" ] || { echo "x" >"$3"; echo "No space left" >&2; exit 1; }
echo "$2" >"$3"; done_with
""",
    "mkswap": 'echo swap >>"$1"; done_with\n',
    "swapon": """size=$(sed -n '1s/M//p' "$1"); grep -q swap "$1" || exit 1
echo "$1 file $((size * 1024)) 0 -2" >>"$R/proc/swaps"; done_with
""",
    "systemctl": """case $1 in
is-enabled) [ -e "$R/etc/$2" ] && echo enabled || echo disabled ;;
get-default) cat "$R/etc/default-target" ;;
disable) rm -f "$R/etc/$2"; done_with ;;
set-default) echo "$2" >"$R/etc/default-target"; done_with ;;
esac
""",
    "nvpmodel": 'echo "pmode:000$2" >"$R/var/lib/nvpmodel/status"; done_with\n',
    "jetson_clocks": """for high in "$R"/sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq; do
cat "$high" >"${high/max/min}"; done
for high in "$R"/sys/class/devfreq/*/max_freq; do cat "$high" >"${high/max/min}"; done
done_with
""",
    "dpkg-query": """grep -qx "$3" "$R/packages" 2>/dev/null || exit 1; echo "install ok installed"
""",
    "dpkg": "done_with\n",
    "apt-get": """[ -z "$FAKE_APT" ] || { echo "$FAKE_APT"; exit 100; }
[ -z "$FAKE_OFFLINE" ] || { echo "Temporary failure resolving"; exit 100; }
[ "$1" != install ] || for name in "${@:4}"; do
grep -qx "$name" "$R/packages" 2>/dev/null || echo "$name" >>"$R/packages"; done
done_with
""",
    "python3": """case $1 in
-c) echo "${FAKE_PYTHON:-3.6}" ;;
-m) [ "$2" = venv ] || exit 1
mkdir -p "$4/bin" "$4/lib/python${FAKE_PYTHON:-3.6}/site-packages"
[ "$KILL" != "midway $number" ] || kill -9 0
echo "include-system-site-packages = true" >"$4/pyvenv.cfg"
cp "$FAKE/venv-python" "$4/bin/python"
[ -e "$4/freeze" ] || echo pip==9.0.1 >"$4/freeze"; done_with ;;
esac
""",
}
# The environment's Python: `-c` lists packages, `-m pip install` adds them.
VENV_PYTHON = (
    BEGIN
    + """V=$(cd "$(dirname "$0")/.." && pwd)
case "$1 $2 $3" in
"-c "*sweep) done_with ;;
"-c "*) cat "$V/freeze" ;;
"-m pip --version") echo pip ;;
"-m edgeformer doctor") echo "ok board"; exit "${FAKE_DOCTOR:-0}" ;;
"-m pip "*)
echo "cpath $CPATH core $OPENBLAS_CORETYPE" >>"$FAKE/environment"
[ -z "$FAKE_OFFLINE" ] || [[ " $* " = *" --no-index "* ]] ||
{ echo "NewConnectionError: Temporary failure in name resolution"; exit 1; }
for word in "$@"; do case $word in
-*|install|pip) ;; *==*) add=$word ;; *\\!=*) continue ;;
*edgeformer-*.whl) add=${word##*/edgeformer-}; add=edgeformer==${add%%-*} ;;
/*) [ -e "$word/pyproject.toml" ] && add=edgeformer==0.1.0 || continue ;;
*) add=$word==1 ;; esac
[ -n "$add" ] || continue
add=$(tr 'A-Z_.' 'a-z--' <<<"${add%%==*}")==${add##*==}
grep -v "^${add%%==*}==" "$V/freeze" >"$V/freeze.new"; echo "$add" >>"$V/freeze.new"
sort "$V/freeze.new" >"$V/freeze.sorted"; /bin/mv "$V/freeze.sorted" "$V/freeze"
/bin/rm "$V/freeze.new"; add=
[ "$KILL" != "midway $number" ] || kill -9 0
done; done_with ;;
esac
"""
)


class Machine:
    """A board, what is asked of it, and what was called."""

    def __init__(self, folder, **environment):
        self.folder = str(folder)
        self.root = os.path.join(self.folder, "root")
        self.venv = os.path.join(self.folder, "venv")
        self.environment = environment
        programs = os.path.join(self.folder, "bin")
        for name, text in PROGRAMS.items():
            executable(programs, name, BEGIN + text)
        executable(self.folder, "venv-python", VENV_PYTHON)

    def run(self, *options, stdin=subprocess.DEVNULL, **environment):
        """(status, output) of one run. KILL="before 7": see BEGIN."""
        with open(self.path("calls"), "w"):
            pass
        own = {
            "PATH": os.path.join(self.folder, "bin") + ":/usr/bin:/bin",
            "HOME": self.folder,
            "FAKE": self.folder,
            "EDGEFORMER_ROOT": self.root,
            "KILL": "",
        }
        own.update(self.environment)
        own.update(environment)
        done = subprocess.run(
            ["bash", SCRIPT, "--venv", self.venv, *options],
            env=own,
            cwd=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # which KILL ends
            timeout=120,
        )
        return done.returncode, done.stdout.decode("utf-8")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def calls(self):
        with open(self.path("calls"), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()

    def called(self, name):
        return [call for call in self.calls() if call.split()[0] == name]

    def state(self):
        """{path: bytes} of everything that outlives a reboot."""
        found = {}
        for top in (self.root, self.venv):
            for folder, _, names in os.walk(top):
                for name in names:
                    if name in ("freeze.new", "freeze.sorted"):
                        continue  # the fake's own, of its pip
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, self.folder)] = file.read()
        return found


def executable(folder, name, text):
    path = boards.write(folder, name, text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def fresh(root):
    """What a flashed card has of its own: a desktop, zram, an fstab, the release's CUDA."""
    boards.write(root, "etc/default-target", "graphical.target\n")
    boards.write(root, "etc/nvzramconfig", "")
    boards.write(root, "etc/fstab", "/dev/root / ext4 defaults 0 1\n")
    boards.write(root, "proc/swaps", fakes.swaps(("/dev/zram0", 507 * MB)))
    boards.write(root, "usr/local/cuda/bin/nvcc", "")


def nano(folder, memory_mb=3956, release="7.4"):
    """A 4 GB Nano as it is after the first boot: 5W, clocks free."""
    made = Machine(folder)
    boards.nano(made.root)
    fresh(made.root)
    text = "# R32 (release), REVISION: %s, GCID: 1, BOARD: t210ref, EABI: aarch64\n"
    boards.write(made.root, "etc/nv_tegra_release", text % release)
    boards.write(made.root, "proc/meminfo", "MemTotal:   %d kB\n" % (memory_mb * 1024))
    boards.write(made.root, "var/lib/nvpmodel/status", "pmode:0001\n")
    boards.write(made.root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "102000\n")
    return made


def nano_2gb(folder):
    return nano(folder, 1980)


def orin(folder, release, python):
    made = Machine(folder, FAKE_PYTHON=python)
    boards.orin_nano(made.root)
    fresh(made.root)
    text = "# R%s (release), REVISION: %s, GCID: 1, BOARD: generic, EABI: aarch64\n"
    boards.write(made.root, "etc/nv_tegra_release", text % tuple(release.split(".", 1)))
    boards.write(made.root, "proc/meminfo", "MemTotal:   %d kB\n" % (7620 * 1024))
    return made


def orin_r35(folder):
    return orin(folder, "35.4.1", "3.8")


def orin_r36(folder):
    return orin(folder, "36.4.3", "3.10")


def orin_r39(folder):
    return orin(folder, "39.2.0", "3.12")


def unknown_board(folder):
    """A Jetson of no kind that we know, whose release is told by nothing."""
    made = orin(folder, "35.1", "3.8")
    boards.write(made.root, "proc/device-tree/compatible", b"nvidia,p9999\0nvidia,tegra999\0")
    os.remove(os.path.join(made.root, "etc/nv_tegra_release"))
    os.remove(os.path.join(made.root, "etc/nvpmodel.conf"))
    return made


def pc(folder):
    made = Machine(folder, FAKE_ARCH="x86_64")
    boards.pc(made.root)
    return made


def copied(machine, folder):
    """The same machine once more. Calls and log stay behind."""
    made = Machine(folder, **machine.environment)
    shutil.copytree(machine.root, made.root)
    return made
