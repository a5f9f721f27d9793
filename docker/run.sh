#!/usr/bin/env bash
# run.sh VERB ...: edgeformer's verbs in the image for this machine. Bash 4.4 (Ubuntu 18.04).
#
# The container sees the bundles (their engines/ alone can be written), the files that the verb
# names, what tells which board this is, and no network. It runs as the user who calls it.
set -euo pipefail
export LC_ALL=C

usage() {
    cat <<'END'
usage: docker/run.sh [OPTIONS] VERB ...     such as: docker/run.sh generate BUNDLE "Hello"

VERB and what follows are those of python -m edgeformer. Bundles appear in the container as
/bundles/NAME, files that options name under /files, and the folder of -o under /out.

  --dry-run      print the docker command and do nothing
  --cpu          without the GPU; for releases of L4T that there is no image for, too
  --image NAME   another image than edgeformer:r32, r35, r36 or pc, which docker/build.sh makes

Exit: what the verb exits with; 2: stopped, the message says what to change; 125 to 127: Docker.
END
}

ROOT=${EDGEFORMER_ROOT:-} # another machine's files, for tests
CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/edgeformer/docker
DRY=no CPU=no IMAGE=""
JETSON=no L4T="" KIND=""

say() { printf '%s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# ---------- which machine this is, and which image it takes

text() { tr '\0' ' ' 2>/dev/null <"$ROOT$1"; }

look() {
    case $(text /proc/device-tree/compatible) in *nvidia,tegra*) JETSON=yes ;; *) return 0 ;; esac
    L4T=$(text /etc/nv_tegra_release |
        sed -n 's/^# *R\([0-9]*\) (release), REVISION: \([0-9.]*\).*/\1.\2/p' | head -n 1)
}

choose() {
    if [ $JETSON = no ]; then
        KIND=pc CPU=yes
    elif [ $CPU = yes ]; then
        # The Docker of JetPack 4 refuses threads to today's Debian: docker-library/python issue 835.
        case $L4T in 32.*) KIND=r32 ;; *) KIND=pc ;; esac
    else
        case $L4T. in
            32.7.*) KIND=r32 ;;
            [0-9].* | [12][0-9].* | 3[012].*)
                die "R$L4T has a TensorRT older than 8.2, which builds no engines of ours, and other" \
                    "libraries than the image for R32.7 expects: update the board to R32.7 (JetPack 4.6.1" \
                    "to 4.6.6), or say --cpu" ;;
            35.*) KIND=r35 ;;
            36.[0-3].*)
                die "R$L4T (JetPack 6.0) has the driver of CUDA 12.2; the image for R36 holds CUDA 12.6 and" \
                    "TensorRT 10.3, which came with R36.4: update the board to JetPack 6.1 or newer, or say" \
                    "--cpu" ;;
            36.*) KIND=r36 ;;
            *)
                die "there is no image for L4T R${L4T:-unknown}, only for R32.7, R35 and R36 from R36.4 on; say" \
                    "--cpu, or set the board up without a container: bash jetson_setup.sh" ;;
        esac
    fi
    IMAGE=${IMAGE:-edgeformer:$KIND}
}

# ---------- what the container sees

MOUNTS=()                # for docker
declare -A SEEN=() TAKEN=() # target of FOLDER:SOURCE, source of a target
MOUNTED=""               # where the last one is

# mount SOURCE TARGET [readonly]
mount() {
    # Docker reads the option as comma-separated values.
    case $1$2 in *[,\"]* | *$'\n'*) die "Docker cannot mount $1: rename it, without comma and quote" ;; esac
    MOUNTS+=(--mount "type=bind,source=$1,target=$2${3:+,$3}")
}

# mount_as SOURCE FOLDER [readonly]: as FOLDER/NAME, or NAME-2 where another source has that name.
mount_as() {
    local source target number=2
    source=$(realpath -- "$1")
    MOUNTED=${SEEN[$2:$source]:-}
    [ -z "$MOUNTED" ] || return 0
    target=$2/$(basename -- "$source")
    while [ -n "${TAKEN[$target]:-}" ]; do
        target=$2/$(basename -- "$source")-$((number++))
    done
    SEEN[$2:$source]=$target TAKEN[$target]=$source MOUNTED=$target
    mount "$source" "$target" "${3:-}"
}

is_bundle() { [ -f "$1/manifest.json" ]; }

bundle() {
    local engines
    engines=$(realpath -- "$1")/engines
    MOUNTED=${SEEN[/bundles:${engines%/engines}]:-}
    [ -z "$MOUNTED" ] || return 0
    mount_as "$1" /bundles readonly
    [ $CPU = no ] || return 0
    if [ ! -d "$engines" ]; then
        [ $DRY = no ] || say "would make $engines"
        [ $DRY = yes ] || mkdir "$engines" 2>/dev/null ||
            die "$engines, where engines are kept, cannot be made: check who may write there, or say --cpu"
    fi
    mount "$engines" "$MOUNTED/engines"
}

input() { # a file that an option names; where it is not there, the verb says so
    case $1 in lookup | off) MOUNTED=$1 && return ;; esac # drafts without a file
    if is_bundle "$1"; then bundle "$1"
    elif [ -f "$1" ]; then mount_as "$1" /files readonly
    else MOUNTED=$1
    fi
}

output() { # a file, or a folder; links lead nowhere in the container, so they are followed here
    local folder path
    [ -n "$1" ] || die "-o takes the name of a file, not an empty one"
    folder=$(dirname -- "$1")
    [ -d "$folder" ] || die "there is no folder $folder for $(basename -- "$1"): mkdir -p $folder"
    path=$(realpath -- "$1") || die "$1 is a link that leads nowhere: remove it"
    if [ -d "$path" ]; then
        mount_as "$path" /out
    else
        mount_as "$(dirname -- "$path")" /out
        MOUNTED=$MOUNTED/$(basename -- "$path")
    fi
}

WORDS=()
positional() { # the bundle, of bench all of them; what else there is, is text. For translate.
    if is_bundle "$1" && { [ $bundles = 0 ] || [ "${WORDS[0]}" = bench ]; }; then
        bundle "$1"
        bundles=$((bundles + 1))
    elif [ "${WORDS[0]}" = drafter ] && [ -f "$1" ]; then
        mount_as "$1" /files readonly
    else
        MOUNTED=$1
    fi
    WORDS+=("$MOUNTED")
}

translate() { # VERB ARGS...
    local word bundles=0 options=yes
    WORDS=("$1")
    shift
    while [ $# -gt 0 ]; do
        word=$1
        shift
        case $options$word in
            no*) positional "$word" ;; # behind --
            yes--) options=no && WORDS+=("$word") ;;
            yes-o | yes--output | yes--prefix | yes--json-schema | yes--load | yes--draft)
                WORDS+=("$word")
                [ $# -gt 0 ] || return 0
                case $word in -o | --output) output "$1" ;; *) input "$1" ;; esac
                WORDS+=("$MOUNTED")
                shift
                ;;
            yes--output=* | yes--prefix=* | yes--json-schema=* | yes--load=* | yes--draft=*)
                case $word in --output=*) output "${word#*=}" ;; *) input "${word#*=}" ;; esac
                WORDS+=("${word%%=*}=$MOUNTED")
                ;;
            yes-o*)
                output "${word#-o}"
                WORDS+=("-o$MOUNTED")
                ;;
            yes-h | yes--help) bundles=1 && WORDS+=("$word") ;;
            yes-*) WORDS+=("$word") ;;
            *) positional "$word" ;;
        esac
    done
    [ $bundles -gt 0 ] || [ "${WORDS[0]}" = doctor ] ||
        die "${WORDS[0]} wants a bundle, and none of these is a folder with a manifest.json: ${WORDS[*]:1}"
}

# What tells board, release, power mode and load. Docker hides the device tree, so a copy goes in.
board_files() {
    local name folder=$CACHE/device-tree
    for name in /etc/nv_tegra_release /etc/nvpmodel.conf /var/lib/nvpmodel /usr/bin/tegrastats; do
        [ ! -e "$ROOT$name" ] || mount "$ROOT$name" "$name" readonly
    done
    if [ $DRY = no ]; then
        mkdir -p "$folder"
        for name in model compatible; do
            cp "$ROOT/proc/device-tree/$name" "$folder/.$name.$$"
            chmod 644 "$folder/.$name.$$"
            mv "$folder/.$name.$$" "$folder/$name"
        done
    fi
    mount "$folder" /run/edgeformer/device-tree readonly
}

GPU=()
# The runtime of NVIDIA, never --gpus (osrf/rocker 211), and the groups that own the devices, without
# which only root has a GPU (NVIDIA/nvidia-docker issue 1449).
gpu() {
    local device group
    GPU=(--runtime nvidia)
    for device in /dev/nvmap /dev/nvhost-gpu /dev/nvgpu/igpu0/ctrl /dev/dri/renderD128; do
        group=$(stat -c %g "$ROOT$device" 2>/dev/null) || continue
        case " ${GPU[*]} " in *" $group "*) ;; *) GPU+=(--group-add "$group") ;; esac
    done
    if [ $KIND = r32 ]; then
        [ $DRY = yes ] || mkdir -p "$CACHE/r32"
        mount "$CACHE/r32" /cache # pycuda, compiled at the first run
    fi
}

# ---------- Docker

ready() {
    local said
    command -v docker >/dev/null || die "there is no docker: sudo apt-get install docker.io"
    if ! said=$(docker image inspect "$IMAGE" 2>&1 >/dev/null); then
        case $said in
            *"ermission denied"*) die "Docker refuses this user: sudo usermod -aG docker \$USER, and log in again" ;;
            *"annot connect"*) die "Docker does not run: sudo systemctl start docker" ;;
            *) die "there is no image $IMAGE here: docker/build.sh $KIND" ;;
        esac
    fi
    [ $CPU = yes ] || [[ $(docker info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}') = *nvidia* ]] ||
        die "Docker has no runtime called nvidia: sudo apt-get install nvidia-container-toolkit (on R32:" \
            "nvidia-container-runtime), sudo nvidia-ctk runtime configure --runtime=docker (from R35 on)," \
            "sudo systemctl restart docker"
}

main() {
    local command user
    while [ $# -gt 0 ]; do
        case $1 in
            --dry-run) DRY=yes ;;
            --cpu) CPU=yes ;;
            --image)
                [ $# -gt 1 ] && [ -n "$2" ] || die "--image needs a name; see --help"
                IMAGE=$2
                shift
                ;;
            -h | --help) usage && exit 0 ;;
            -*) die "there is no option $1 before the verb; see --help" ;;
            *) break ;;
        esac
        shift
    done
    [ $# -gt 0 ] || { usage >&2 && exit 2; }
    look
    choose
    [ $DRY = yes ] || ready
    translate "$@"
    [ $JETSON = no ] || board_files
    [ $CPU = yes ] || gpu
    [ "$1" != chat ] || mount "$PWD" /work # /save writes there
    user=$(id -u)
    [ "$user" != 0 ] || say "as root, the container runs as root too; without sudo: sudo usermod -aG docker USER"
    # No health check: it would run in the midst of what is measured.
    command=(docker run --rm --init --no-healthcheck --network none --interactive)
    if [ -t 0 ] && [ -t 1 ]; then command+=(--tty); fi
    command+=(--user "$user:$(id -g)" --env HOME=/tmp "${GPU[@]}" "${MOUNTS[@]}" "$IMAGE" "${WORDS[@]}")
    if [ $DRY = yes ]; then
        printf '%q ' "${command[@]}"
        printf '\n'
        exit 0
    fi
    exec "${command[@]}"
}

main "$@"
