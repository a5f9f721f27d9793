#!/usr/bin/env bash
# jetson_setup.sh: from a fresh JetPack card to a machine that runs edgeformer.
#
# Looks at what is there, says what is missing and why, asks, and does that and nothing else. Every
# step first looks whether it is done, so a run that was stopped, killed or lost its power is taken
# up by the next one. Bash 4.4 (Ubuntu 18.04); needs no network where --offline has the wheels.
set -uo pipefail
export LC_ALL=C

usage() {
    cat <<'END'
usage: bash jetson_setup.sh [OPTIONS]         on the board, as yourself: it asks for sudo when needed
       bash jetson_setup.sh --make-offline DIR     on a PC with a network

  --dry-run         tell what would be done, with the commands; change nothing
  --check           tell what is missing; exit 0: nothing, 1: something
  --yes             do not ask
  --no-power        leave power mode and clocks as they are
  --swap SIZE       swap file of this size, such as 4G; 0: none (default: 4G below 6 GB of memory)
  --venv DIR        the Python environment (default: ~/edgeformer-venv)
  --offline WHEELS  take packages from this folder, made by --make-offline, and nothing else
  --make-offline DIR  collect the wheels for every board into DIR, to be copied to one

Everything is written down in ~/edgeformer-setup.log.
Exit 0: all is there. 1: something is missing, or doctor found something that blocks. 2: stopped;
the message says what to change.
END
}

# Versions that belong together: the same table as in edgeformer/device/doctor/pins.py.
declare -A KIT=(
    [r32.releases]="32.6 32.7"
    [r32.python]=3.6
    [r32.pip]=21.3.1
    [r32.packages]="numpy==1.19.4 flatbuffers==2.0 protobuf==3.19.6 typing_extensions==4.1.1
        onnxruntime==1.10.0 tokenizers==0.12.1 MarkupSafe==2.0.1 Jinja2==3.0.3"
    [r32.build]="setuptools==59.6.0 wheel==0.37.1"
    [r32.pycuda]="six==1.16.0 dataclasses==0.8 appdirs==1.4.4 platformdirs==2.4.0
        pytools==2021.2.9 pycuda==2021.1"
    [r35.releases]="35"
    [r35.python]=3.8
    [r35.pip]=24.3.1
    [r35.packages]="numpy==1.23.5 flatbuffers==24.3.25 protobuf==5.29.6 typing_extensions==4.12.2
        onnxruntime==1.19.2 tokenizers==0.20.3 MarkupSafe==2.1.5 Jinja2==3.1.6"
    [r35.build]="setuptools==75.3.0 wheel==0.45.1"
    [r35.pycuda]="platformdirs==4.3.6 pytools==2023.1.1 pycuda==2022.2.2"
    [r36.releases]="36"
    [r36.python]=3.10
    [r36.pip]=25.0.1
    [r36.packages]="numpy==1.26.4 flatbuffers==25.12.19 protobuf==7.36.2 typing_extensions==4.16.0
        onnxruntime==1.23.2 tokenizers==0.23.3 MarkupSafe==3.0.4 Jinja2==3.1.6 llguidance==1.9.1"
    [r36.build]="setuptools==75.8.0 wheel==0.45.1"
    [r36.pycuda]="platformdirs==4.3.6 pytools==2024.1.14 pycuda==2024.1.2"
)
SAFE_PACKAGES="numpy onnxruntime Jinja2" # for a release that is in no table, as pip picks them

ROOT=${EDGEFORMER_ROOT:-} # another machine's files, for tests
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
MODE=act YES=no POWER=yes SWAP="" OFFLINE="" COLLECT=""
VENV=${HOME:-/root}/edgeformer-venv LOG=${HOME:-/root}/edgeformer-setup.log

say() { printf '%s\n' "$*"; }
note() { [ "$MODE" != act ] || printf '%s %s\n' "$(date '+%F %T')" "$*" >>"$LOG"; }
die() {
    printf 'error: %s\n' "$*" >&2
    note "error: $*" 2>/dev/null
    exit 2
}

parse() {
    local option
    while [ $# -gt 0 ]; do
        option=$1
        shift
        case $option in
            --dry-run) MODE=plan ;;
            --check) MODE=check ;;
            --yes) YES=yes ;;
            --no-power) POWER=no ;;
            --swap | --venv | --offline | --make-offline)
                [ $# -gt 0 ] && [ -n "$1" ] || die "$option needs a value; see --help"
                case $option in
                    --swap) SWAP=$1 ;;
                    --venv) VENV=$1 ;;
                    --offline) OFFLINE=$1 ;;
                    --make-offline) COLLECT=$1 ;;
                esac
                shift
                ;;
            -h | --help) usage && exit 0 ;;
            *) die "there is no option $option; see --help" ;;
        esac
    done
    [[ -z $SWAP || $SWAP =~ ^(0|[1-9][0-9]{0,3}[MG])$ ]] || die "--swap is $SWAP; say 0, 512M or 4G"
    [[ $VENV = /* ]] || VENV=$PWD/$VENV
    if [ -n "$OFFLINE" ]; then
        [ -d "$OFFLINE" ] || die "--offline $OFFLINE is no folder; make one with --make-offline"
        OFFLINE=$(cd "$OFFLINE" && pwd)
    fi
}

# ---------- what machine this is

MODEL="" L4T="" NAME="" JETSON=no CONTAINER=no TOTAL_MB=0

text() { tr '\0' ' ' 2>/dev/null <"$ROOT$1"; }

look() {
    local compatible kit release
    compatible=$(text /proc/device-tree/compatible)
    MODEL=$(text /proc/device-tree/model | sed 's/ *$//')
    TOTAL_MB=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' "$ROOT/proc/meminfo") / 1024))
    if [ -e "$ROOT/.dockerenv" ] || [ -e "$ROOT/run/.containerenv" ]; then CONTAINER=yes; fi
    case $compatible in
        *nvidia,tegra*) JETSON=yes ;;
        *) # Docker hides the device tree; the file alone may be that of an image on a PC
            if [ $CONTAINER = yes ] && [ "$(uname -m)" = aarch64 ] &&
                [ -e "$ROOT/etc/nv_tegra_release" ]; then JETSON=yes; fi ;;
    esac
    [ $JETSON = yes ] || return 0
    L4T=$(text /etc/nv_tegra_release |
        sed -n 's/^# *R\([0-9]*\) (release), REVISION: \([0-9.]*\).*/\1.\2/p' | head -n 1)
    for kit in r32 r35 r36; do
        for release in ${KIT[$kit.releases]}; do
            case $L4T. in "$release".*) NAME=$kit ;; esac
        done
    done
}

describe() {
    if [ $JETSON = no ]; then
        say "This is no Jetson ($(uname -m)). Nothing is changed here. On a Jetson Nano with JetPack 4.6"
        say "this script would do the following; on an Orin Nano the same with other versions."
        NAME=r32 TOTAL_MB=3964 CONTAINER=no
        return
    fi
    say "${MODEL:-a Jetson}, L4T R${L4T:-unknown}, $TOTAL_MB MB of memory"
    [ $CONTAINER = no ] || say "in a container: swap, desktop, power and clocks are the host's"
    if [ -z "$NAME" ]; then
        say "This release is in no table of edgeformer, whose versions are for R32.6 to R36. Only what"
        say "is safe everywhere is done: no versions are pinned, and pycuda is not built. Bundles run on"
        say "the CPU; whether engines can be built, edgeformer doctor and edgeformer build tell."
    fi
    case $L4T in 32.6*) say "R32.6 has TensorRT 8.0, which builds no engines of ours: update to R32.7." ;; esac
    [ "$TOTAL_MB" -ge 6000 ] || advise_memory
}

advise_memory() {
    local left=$((TOTAL_MB - 500 - 650))
    say "Without a desktop about $left MB are left for a model: the system takes up to 500, CUDA, cuBLAS"
    say "and cuDNN about 650. python -m edgeformer plan BUNDLE says whether a bundle fits."
}

# ---------- doing things

as_root() {
    if [ -n "$ROOT" ] || [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# run COMMAND...: into the log; the end of what it printed is shown if it fails.
run() {
    local out status
    note "\$ $*"
    out=$("$@" 2>&1 9>&-)
    status=$?
    [ -z "$out" ] || printf '%s\n' "$out" >>"$LOG"
    [ $status = 0 ] || failed "$status" "$out" "$@"
}

failed() { # STATUS OUTPUT COMMAND...
    local status=$1 out=$2 hint=""
    shift 2
    case $out in
        *"not yet valid"*) hint="the clock is wrong, which certificates are checked by: sudo timedatectl set-ntp true, or date -s" ;;
        *"Could not get lock"*) hint="another apt is running, after a first boot for some minutes: wait for it" ;;
        *"No space left"*) hint="the disk is full: make room (df -h, sudo apt-get clean)" ;;
        *"ould not resolve"* | *"emporary failure"* | *"NewConnectionError"* | *"nreachable"* | *"Could not find a version"*)
            hint="no network? On a PC: bash jetson_setup.sh --make-offline DIR; here: --offline DIR" ;;
    esac
    printf '%s\n' "$out" | tail -n 12 >&2
    die "$* ended with $status${hint:+; $hint}. What was done stays; run this script again. Log: $LOG"
}

# write_file PATH TEXT: whole or not at all; what was there before is kept beside it, once.
write_file() {
    local path=$ROOT$1 part
    part=$path.edgeformer-part
    if [ -e "$path" ] && [ ! -e "$path.edgeformer-backup" ]; then
        run as_root cp -p "$path" "$part"
        run as_root mv "$part" "$path.edgeformer-backup"
    fi
    note "writing $1"
    printf '%s\n' "$2" | as_root tee "$part" >/dev/null || die "$part cannot be written"
    run as_root chmod 644 "$part"
    run as_root sync "$part"
    run as_root mv "$part" "$path"
}

python() { printf '%s' "$VENV/bin/python"; }
pip_install() {
    local from=()
    [ -z "$OFFLINE" ] || from=(--no-index --find-links "$(wheels)")
    run "$(python)" -c "$WHOLE" sweep
    run env "PATH=$ROOT/usr/local/cuda/bin:$PATH" "CPATH=$ROOT/usr/local/cuda/include" \
        "LIBRARY_PATH=$ROOT/usr/local/cuda/lib64" OPENBLAS_CORETYPE="$(coretype)" \
        "$(python)" -m pip --disable-pip-version-check --no-cache-dir install "${from[@]}" "$@"
}
coretype() { if [ "$NAME" = r32 ]; then echo ARMV8; else echo "${OPENBLAS_CORETYPE:-}"; fi; }
wheels() { if [ -d "$OFFLINE/$NAME" ]; then echo "$OFFLINE/$NAME"; else echo "$OFFLINE"; fi; }

# NAME==VERSION of what Python sees and of which every file is there in its length: a pip that lost
# its power leaves packages that it takes for installed. With `sweep` these are taken off its list.
WHOLE='
import csv, os, re, shutil, sys
seen = set()
for folder in sys.path:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        found = re.match(r"(.+?)-(\d[^-]*)(-py[\d.]+)?\.(dist|egg)-info$", name)
        if not found or found.group(1).lower() in seen:
            continue
        path, whole = os.path.join(folder, name), True
        if found.group(4) == "dist":
            try:
                with open(os.path.join(path, "RECORD"), encoding="utf-8") as file:
                    rows = [row for row in csv.reader(file) if len(row) == 3 and row[2]]
                # pip compiles anew what a wheel has compiled, such as numpy 1.26
                rows = [row for row in rows if not row[0].endswith(".pyc")]
                left = [int(r[2]) - os.path.getsize(os.path.join(folder, r[0])) for r in rows]
                whole = bool(left) and max(left) <= 0
            except (OSError, ValueError):
                whole = False
        if whole:
            seen.add(found.group(1).lower())
            print(re.sub("[-_.]+", "-", found.group(1)).lower() + "==" + found.group(2))
        elif sys.argv[1:] == ["sweep"] and path.startswith(sys.prefix + os.sep):
            shutil.rmtree(path)
'
has() { # PIN...
    local pin listed
    listed=$'\n'$("$(python)" -c "$WHOLE" 2>/dev/null)$'\n' || return 1
    for pin in "$@"; do
        pin=$(printf '%s' "${pin%%==*}" | tr 'A-Z_.' 'a-z--')$(printf '%s' "$pin" | sed -n 's/.*==/==/p')
        case $pin in
            *==*) [[ $listed = *$'\n'"$pin"$'\n'* ]] || return 1 ;;
            *) [[ $listed = *$'\n'"$pin"==* ]] || return 1 ;;
        esac
    done
}

# ---------- the steps: NAME_is_done, NAME_why, NAME_plan (commands), NAME_do; and who is asked

SWAPFILE=/swapfile.edgeformer
FSTAB="$SWAPFILE none swap sw 0 0"
swap_mb() {
    local size=$SWAP
    if [ -z "$size" ]; then size=$([ "$TOTAL_MB" -lt 6000 ] && echo 4G || echo 0); fi
    case $size in *G) echo $((${size%G} * 1024)) ;; *) echo "${size%M}" ;; esac
}
swaps_mb() { # on disk
    awk 'NR > 1 && $1 !~ /zram/ { sum += $3 } END { print int(sum / 1024) }' "$ROOT/proc/swaps" 2>/dev/null
}
swap_is_on() { awk -v file="$ROOT$SWAPFILE" '$1 == file { on = 1 } END { exit !on }' "$ROOT/proc/swaps" 2>/dev/null; }
swap_in_fstab() { grep -qsF "$FSTAB" "$ROOT/etc/fstab"; }
swap_is_done() {
    [ "$(swap_mb)" = 0 ] && return 0
    if [ -e "$ROOT$SWAPFILE" ]; then swap_is_on && swap_in_fstab; return; fi
    [ "$(swaps_mb)" -ge $(($(swap_mb) * 9 / 10)) ]
}
swap_why() { say "a swap file of $(swap_mb) MB: reading a model and building its engine take host memory"; }
swap_plan() {
    say "fallocate -l $(swap_mb)M $SWAPFILE; chmod 600, mkswap, swapon; a line in /etc/fstab"
}
swap_do() {
    local part=$ROOT$SWAPFILE.part free
    if [ ! -e "$ROOT$SWAPFILE" ]; then
        run as_root rm -f "$part" # of a run that was stopped
        free=$(df -Pm "$ROOT/" | awk 'NR == 2 { print $4 }')
        [ "${free:-0}" -ge $(($(swap_mb) + 1024)) ] ||
            die "$(swap_mb) MB of swap need $(($(swap_mb) + 1024)) MB of disk, ${free:-0} MB are free: make room, or --swap with less (0: none)"
        if ! as_root fallocate -l "$(swap_mb)M" "$part" 2>>"$LOG"; then
            as_root rm -f "$part"
            die "fallocate found no room for $(swap_mb) MB: make room, or --swap with less (0: none)"
        fi
        run as_root chmod 600 "$part"
        run as_root mkswap "$part"
        run as_root mv "$part" "$ROOT$SWAPFILE"
    fi
    swap_is_on || run as_root swapon "$ROOT$SWAPFILE"
    swap_in_fstab || write_file /etc/fstab "$(cat "$ROOT/etc/fstab" 2>/dev/null)"$'\n'"$FSTAB"
}

zram_is_done() {
    [ "$(swap_mb)" = 0 ] || [ "$(systemctl is-enabled nvzramconfig 2>/dev/null)" != enabled ]
}
zram_why() { say "no zram from the next boot on: it is taken from the memory that is short; the file serves"; }
zram_plan() { say "systemctl disable nvzramconfig"; }
zram_do() { run as_root systemctl disable nvzramconfig; }

headless_is_done() { [ "$(systemctl get-default 2>/dev/null)" != graphical.target ]; }
headless_why() { say "no desktop from the next boot on: it takes about 800 MB (back: set-default graphical.target)"; }
headless_plan() { say "systemctl set-default multi-user.target"; }
headless_do() { run as_root systemctl set-default multi-user.target; }

mode_best() { # "NUMBER NAME": MAXN by name, else the most watts. Numbers differ by board and release.
    if [ $JETSON = no ]; then echo 0 MAXN && return; fi
    sed -n 's/^< *POWER_MODEL *ID=\([0-9]*\) *NAME=\([^ >]*\).*/\1 \2/p' "$ROOT/etc/nvpmodel.conf" 2>/dev/null |
        awk '$2 ~ /^MAXN/ { rank = 100000 } $2 !~ /^MAXN/ { rank = $2 + 0 }
             rank > best { best = rank; line = $0 } END { print line }'
}
mode_now() { sed -n 's/^pmode:0*\([0-9][0-9]*\).*/\1/p' "$ROOT/var/lib/nvpmodel/status" 2>/dev/null; }
power_is_done() {
    local best
    best=$(mode_best)
    [ -z "$best" ] || [ "$(mode_now)" = "${best%% *}" ]
}
power_why() {
    say "power mode $(mode_best | cut -d' ' -f2), the fastest by name, for good: it wants the board's full" \
        "supply (Nano: 5 V 4 A at the barrel jack, J48 closed); a weak one switches the board off"
}
power_plan() { say "nvpmodel -m $(mode_best | cut -d' ' -f1)"; }
power_do() {
    run as_root nvpmodel -m "$(mode_best | cut -d' ' -f1)" </dev/null
    power_is_done || die "nvpmodel wants a reboot for this mode: reboot, then run this script again"
}

clocks_is_done() {
    local folder low high
    for folder in "$ROOT"/sys/devices/system/cpu/cpu[0-9]*/cpufreq; do
        low=$folder/scaling_min_freq high=$folder/scaling_max_freq
        [ ! -e "$low" ] || [ "$(cat "$low" 2>/dev/null)" = "$(cat "$high" 2>/dev/null)" ] || return 1
    done
    for folder in "$ROOT"/sys/class/devfreq/*.gpu "$ROOT"/sys/class/devfreq/*.ga10b; do
        [ ! -e "$folder/min_freq" ] ||
            [ "$(cat "$folder/min_freq")" = "$(cat "$folder/max_freq")" ] || return 1
    done
}
clocks_why() { say "clocks held at the mode's highest until the next boot: short steps are over before they rise"; }
clocks_plan() { say "jetson_clocks"; }
clocks_do() { run as_root jetson_clocks; }

cuda_is_expected() { # it is here, or nvidia-jetpack brings it
    [ -d "$ROOT/usr/local/cuda" ] || { [ -n "$NAME" ] && [ $CONTAINER = no ]; }
}
apt_wanted() {
    local wanted=(python3-venv python3-dev build-essential) name
    [ $CONTAINER = yes ] || [ -z "$NAME" ] || wanted+=(python3-libnvinfer)
    if [ $JETSON = no ]; then say "${wanted[@]}" && return; fi
    [ -d "$ROOT/usr/local/cuda" ] || ! cuda_is_expected || wanted+=(nvidia-jetpack)
    for name in "${wanted[@]}"; do
        # shellcheck disable=SC2016  # ${Status} is dpkg's
        [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) = *"ok installed" ]] || say "$name"
    done
}
apt_is_done() { [ -z "$(apt_wanted)" ]; }
apt_why() { say "from apt: a venv, headers and a compiler for pycuda, TensorRT's Python module, CUDA if it is not here"; }
apt_plan() { say "dpkg --configure -a; apt-get update; apt-get install -y $(apt_wanted | tr '\n' ' ')"; }
apt_do() {
    local names
    mapfile -t names < <(apt_wanted)
    [ -z "$OFFLINE" ] || die "these come from apt, which needs a network once: ${names[*]}"
    run as_root dpkg --configure -a # what an apt that lost its power left
    run as_root apt-get update
    run as_root apt-get install -y --no-install-recommends "${names[@]}"
    apt_is_done || die "apt-get installed not all of: ${names[*]}"
}

PROFILE=/etc/profile.d/edgeformer-cuda.sh
# shellcheck disable=SC2016  # for the shell that reads it
PROFILE_TEXT='# Written by jetson_setup.sh: where JetPack has CUDA.
export PATH=/usr/local/cuda/bin:$PATH
export CPATH=/usr/local/cuda/include${CPATH:+:$CPATH}
export LIBRARY_PATH=/usr/local/cuda/lib64${LIBRARY_PATH:+:$LIBRARY_PATH}'
paths_is_done() {
    ! cuda_is_expected || [ "$(cat "$ROOT$PROFILE" 2>/dev/null)" = "$PROFILE_TEXT" ]
}
paths_why() { say "PATH, CPATH and LIBRARY_PATH for CUDA: without them pycuda finds no nvcc and no cuda.h"; }
paths_plan() { say "write $PROFILE"; }
paths_do() {
    run as_root mkdir -p "$ROOT/etc/profile.d"
    write_file "$PROFILE" "$PROFILE_TEXT"
}

venv_is_done() {
    grep -qis '^include-system-site-packages *= *true' "$VENV/pyvenv.cfg" &&
        "$(python)" -m pip --version >/dev/null 2>&1
}
venv_why() { say "an environment in $VENV that sees apt's tensorrt, and in which nothing of the system changes"; }
venv_plan() { say "python3 -m venv --system-site-packages $VENV"; }
venv_do() {
    local release=${KIT[$NAME.python]:-} found
    if [ -e "$VENV" ] && [ ! -e "$VENV/pyvenv.cfg" ] && [ -n "$(ls -A "$VENV" 2>/dev/null)" ]; then
        # A venv writes pyvenv.cfg after its first empty folders.
        [ -z "$(find "$VENV" -type f 2>/dev/null | head -n 1)" ] ||
            die "$VENV is there and no environment; say another --venv"
    fi
    found=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [ -z "$release" ] || [ "$found" = "$release" ] ||
        die "python3 is ${found:-not there}; R$L4T has $release, for which its tensorrt is built: put that first on PATH"
    run python3 -m venv --system-site-packages "$VENV"
    venv_is_done || die "$VENV has no pip: sudo apt-get install python3-venv, and run this again"
}

# Before any numpy: it works under sudo, cron and systemd too, where no profile is read.
coretype_path() { printf '%s' "$VENV/lib/python${KIT[$NAME.python]:-3}/site-packages/edgeformer-openblas.pth"; }
CORETYPE='import os; os.environ.setdefault("OPENBLAS_CORETYPE", "ARMV8")'
coretype_is_done() { [ "$NAME" != r32 ] || [ "$(cat "$(coretype_path)" 2>/dev/null)" = "$CORETYPE" ]; }
coretype_why() { say "OPENBLAS_CORETYPE=ARMV8 inside the environment: numpy can die with an illegal instruction without"; }
coretype_plan() { say "write $(coretype_path)"; }
coretype_do() {
    local path
    path=$(coretype_path)
    printf '%s\n' "$CORETYPE" >"$path.part" && run mv "$path.part" "$path"
}

pip_is_done() { [ -z "$NAME" ] || has "pip==${KIT[$NAME.pip]}"; }
pip_why() { say "pip ${KIT[$NAME.pip]}: JetPack's own finds no wheel for this processor"; }
pip_plan() { say "pip install pip==${KIT[$NAME.pip]}"; }
pip_do() { pip_install "pip==${KIT[$NAME.pip]}"; }

package_pins() { printf '%s' "${KIT[$NAME.packages]:-$SAFE_PACKAGES}"; }
# shellcheck disable=SC2046  # words are meant
packages_is_done() { has $(package_pins); }
packages_why() { say "numpy and onnxruntime in versions that run here, without what onnxruntime would pull in"; }
packages_plan() { say "pip install --only-binary=:all: --no-deps $(package_pins | tr -s '\n ' ' ')"; }
packages_do() {
    local pins
    read -r -d '' -a pins <<<"$(package_pins)"
    if [ -z "$NAME" ]; then
        pip_install --only-binary=:all: "${pins[@]}" 'numpy!=1.19.5'
        return
    fi
    pip_install --only-binary=:all: --no-deps "${pins[0]}"
    pip_install --only-binary=:all: --no-deps "${pins[@]:1}"
}

# shellcheck disable=SC2086  # words are meant
pycuda_is_done() {
    [ -z "$NAME" ] || ! cuda_is_expected || has ${KIT[$NAME.build]} ${KIT[$NAME.pycuda]}
}
pycuda_why() { say "pycuda, compiled here against this board's CUDA (minutes): engines get their memory through it"; }
pycuda_plan() {
    say "pip install --no-deps ${KIT[$NAME.build]};" \
        "pip install --no-deps --no-build-isolation $(printf '%s' "${KIT[$NAME.pycuda]}" | tr -s '\n ' ' ')"
}
# shellcheck disable=SC2086
pycuda_do() {
    pip_install --only-binary=:all: --no-deps ${KIT[$NAME.build]}
    # No isolation: pip would fetch the newest numpy into it, on a Nano the one that crashes.
    pip_install --no-deps --no-build-isolation ${KIT[$NAME.pycuda]}
}

own_wheel() { # the newest wheel beside this script or among the wheels
    local folder found=""
    for folder in "$HERE" "$HERE/dist" ${OFFLINE:+"$(wheels)"}; do
        found=$(find "$folder" -maxdepth 1 -name 'edgeformer-*.whl' 2>/dev/null | sort -V | tail -n 1)
        [ -z "$found" ] || break
    done
    printf '%s' "$found"
}
own_version() {
    local wheel
    wheel=$(own_wheel)
    if [ -n "$wheel" ]; then
        wheel=${wheel##*/edgeformer-}
        printf '%s' "${wheel%%-*}"
    else
        sed -n 's/^__version__ = "\(.*\)"/\1/p' "$HERE/edgeformer/__init__.py" 2>/dev/null
    fi
}
edgeformer_is_done() { has edgeformer && { [ -z "$(own_version)" ] || has "edgeformer==$(own_version)"; }; }
edgeformer_why() { say "edgeformer $(own_version) itself"; }
edgeformer_plan() { say "pip install --no-deps $(own_wheel | grep . || echo "$HERE")"; }
edgeformer_do() {
    local what
    what=$(own_wheel)
    [ -n "$what" ] || what=$HERE
    [ "$what" != "$HERE" ] || [ -e "$HERE/pyproject.toml" ] ||
        die "there is no edgeformer-*.whl beside $HERE/jetson_setup.sh; copy it there"
    [ "$what" != "$HERE" ] || [ -z "$OFFLINE" ] ||
        die "there is no edgeformer-*.whl in $OFFLINE; a source tree is installed with a network only"
    pip_install --no-deps "$what"
}

steps() {
    if [ $CONTAINER = no ]; then
        echo swap zram headless
        [ $POWER = no ] || echo power clocks
    fi
    echo apt paths venv coretype pip packages pycuda edgeformer
}
is_optional() { case $1 in swap | zram | headless | power | clocks) return 0 ;; *) return 1 ;; esac; }

agreed() { # QUESTION
    local answer
    [ $YES = no ] || return 0
    read -r -p "$1 [y/N] " answer
    case $answer in y | Y | yes) return 0 ;; *) return 1 ;; esac
}

plan() { # the steps that are to be done, in PENDING
    local step
    PENDING=()
    for step in $(steps); do
        if [ $JETSON = yes ] && "${step}_is_done"; then
            [ "$MODE" = act ] || printf '%-9s %s\n' "is done" "$step"
        else
            PENDING+=("$step")
            printf '%-9s %-11s %s\n' missing "$step" "$("${step}_why")"
            printf '%22s$ %s\n' '' "$("${step}_plan")"
        fi
    done
}

collect() { # for every board, with pip's own idea of what runs there
    local kit release pin tags wheels sources work
    mkdir -p "$COLLECT" || die "$COLLECT cannot be made"
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # now
    trap "rm -rf '$work'" EXIT
    run python3 -m venv "$work"
    run "$work/bin/python" -m pip --disable-pip-version-check install --only-binary=:all: setuptools wheel numpy
    for kit in r32 r35 r36; do
        release=${KIT[$kit.python]} wheels=() sources=()
        tags=(--platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64)
        [ $kit = r32 ] || tags+=(--platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64
            --platform manylinux_2_31_aarch64)
        for pin in "pip==${KIT[$kit.pip]}" ${KIT[$kit.packages]} ${KIT[$kit.build]} ${KIT[$kit.pycuda]}; do
            if is_source "$kit" "${pin%%==*}"; then sources+=("$pin"); else wheels+=("$pin"); fi
        done
        say "$kit: ${#wheels[@]} wheels and ${#sources[@]} sources into $COLLECT/$kit"
        run python3 -m pip --disable-pip-version-check download -d "$COLLECT/$kit" --no-deps \
            --only-binary=:all: "${tags[@]}" --python-version "$release" --implementation cp \
            --abi "$(abi "$release")" --abi abi3 --abi none "${wheels[@]}"
        # Not in isolation: pip would compile a numpy of then, only to read a name and a version.
        run "$work/bin/python" -m pip --disable-pip-version-check download -d "$COLLECT/$kit" --no-deps \
            --no-build-isolation --no-binary=pycuda,pytools "${sources[@]}"
        [ -z "$(own_wheel)" ] || run cp "$(own_wheel)" "$COLLECT/$kit/"
    done
    [ -n "$(own_wheel)" ] || say "There is no edgeformer-*.whl beside this script: copy one into each folder."
    run cp "$HERE/jetson_setup.sh" "$COLLECT/"
    say "Copy $COLLECT to the board, and there: bash $(basename "$COLLECT")/jetson_setup.sh --offline $(basename "$COLLECT")"
}
is_source() { case $1.$2 in *.pycuda | r32.pytools) return 0 ;; *) return 1 ;; esac; } # no wheel
abi() { if [ "$1" = 3.6 ]; then echo cp36m; else echo "cp${1/./}"; fi; }

main() {
    local step skipped=()
    parse "$@"
    if [ -n "$COLLECT" ]; then collect; exit 0; fi
    look
    describe
    if [ $JETSON = no ]; then
        [ "$MODE" = plan ] || [ "$MODE" = check ] || die "this is no Jetson: nothing was done; --dry-run tells what it would be"
        MODE=plan
    fi
    if [ "$MODE" = act ]; then
        exec 9>>"$LOG" || die "$LOG cannot be written"
        flock -n 9 || die "another jetson_setup.sh is running, which writes $LOG"
        note "jetson_setup.sh $* on ${MODEL:-a Jetson}, R${L4T:-unknown}"
    fi
    plan
    if [ ${#PENDING[@]} = 0 ]; then
        say "Nothing is missing."
    elif [ "$MODE" = act ]; then
        [ $YES = yes ] || [ -t 0 ] || die "there is no terminal to ask; say --yes, or --dry-run"
        agreed "Do the ${#PENDING[@]} steps above (of swap, desktop and power each is asked again)?" ||
            die "nothing was changed"
        for step in "${PENDING[@]}"; do
            if is_optional "$step" && ! agreed "$("${step}_why")?"; then skipped+=("$step"); continue; fi
            say "==> $step"
            note "== $step"
            "${step}_do"
        done
        [ ${#skipped[@]} = 0 ] || say "left alone: ${skipped[*]}"
    fi
    case $MODE in
        check) [ ${#PENDING[@]} = 0 ] || exit 1 ;;
        act)
            say "==> edgeformer doctor"
            "$(python)" -m edgeformer doctor 9>&- | tee -a "$LOG"
            [ "${PIPESTATUS[0]}" = 0 ] || exit 1
            say "Now: source $VENV/bin/activate"
            ;;
    esac
}

main "$@"
