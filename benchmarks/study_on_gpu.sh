#!/usr/bin/env bash
# The lab studies of docs/study.md on one GPU, in as many commands as it takes, each within a time limit.
#
#     benchmarks/study_on_gpu.sh OUT SECONDS             repeat this command until it says that nothing is left
#     benchmarks/study_on_gpu.sh OUT SECONDS KEPT        continue in a new checkout from what an earlier command left in KEPT
#
# OUT gets two tar files in parts below 16 MiB: kept.tar.gz.00, kept.tar.gz.01, ..., with all that is needed to continue, and
# reports.tar.gz.00, ..., with pages, tables, claims and logs. Both are there from the first seconds on, are renewed every two
# minutes, and at last before SECONDS are over. KEPT: the folder of these parts; what is there already is not overwritten, so it
# may be given every time. In a new checkout, clips are made again and interrupted trainings start again; reports.tar.gz then
# lacks the pages of studies that were finished before, which `sightline study show` makes from the kept files on any machine.
#
#     PYTHON   the interpreter                                   JOBS     processes that share the GPU (8)
#     STUDIES  names, or YAML files, in their order              WORK     where the folders of the studies are (outputs/study)
#     RETRY=1  try rows that failed again                        RESERVE  seconds at the end for what cannot be stopped (90)
#     BASE_MIB the largest base that is kept (30)
#
# RESERVE: a row that is being compiled, and the report, after which a study is killed. BASE_MIB: a larger base, such as the one of
# 39 M parameters in scale, is trained again in a new checkout, with its rows, unless these were finished.
set -u
usage="usage: benchmarks/study_on_gpu.sh OUT SECONDS [KEPT]"
out=${1:?$usage} limit=${2:?$usage} kept=${3:-}
began=$SECONDS packing=25 every=120  # seconds; packing: and to say what is left
python=${PYTHON:-python} jobs=${JOBS:-8} reserve=${RESERVE:-90}
read -ra studies <<<"${STUDIES:-main revisit efficiency main-seconds pe-design components data longer scale}"
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
[ -z "$kept" ] || kept=$(cd "$kept" && pwd) || exit 1
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 BASE_MIB="${BASE_MIB:-30}"
work=${WORK:-outputs/study}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1

left() { echo $((limit - (SECONDS - began))); }

names() { for study in "${studies[@]}"; do basename "$study" .yaml; done; }

kept_files() {  # paths in $work: results, timing, and every base once
    "$python" - "$work" $(names) <<'PYTHON'
import hashlib, json, os, sys
from pathlib import Path

work, bases = Path(sys.argv[1]), set()
for folder in (work / name for name in sys.argv[2:] if (work / name / "study.json").is_file()):
    done, lost = (folder / "done").is_file(), set()
    files = [path for path in (folder / "study.json", folder / "done", folder / "prepare.txt") if path.is_file()]
    files += folder.glob("timing/**/timing.json")
    for transformer in sorted(folder.glob("bases/*/transformer")):
        weights = sorted(path for path in transformer.iterdir() if path.is_file())
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in weights)).digest()
        if sum(path.stat().st_size for path in weights) > float(os.environ["BASE_MIB"]) * 2**20:
            lost.add(transformer.parent.name)
        elif digest not in bases:
            bases.add(digest)
            files += weights
    tables = json.loads((folder / "study.json").read_text())["tables"]
    of_lost = [] if done else [name for name, table in tables.items() if table["base"] in lost]
    for pattern in ("runs/*/*/result.json", "sweeps/*/*/trial.json"):
        files += [path for path in folder.glob(pattern) if not any(path.parts[-3].startswith(f"{name}_") for name in of_lost)]
    print(*(path.relative_to(work) for path in files), sep="\n")
PYTHON
}

report_files() {
    (cd "$work" && find . -maxdepth 2 \( -name report.html -o -name "*.md" -o -name "*.txt" -o -name "claims*.png" -o -name tables \))
}

pack() {  # both tar files
    local name parts=$work/.parts
    for name in kept report; do
        rm -rf "$parts" && mkdir -p "$parts" || return 1
        "${name}_files" >"$parts/files" || return 1
        [ "$name" = report ] && name=reports
        tar -C "$work" -T "$parts/files" -czf - | split -b 15m -d - "$parts/$name.tar.gz." || return 1
        rm -f "$out/$name".tar.gz.* && mv "$parts/$name".tar.gz.* "$out"
    done
    rm -rf "$parts"
}

run() {  # a study, until it is finished or the time is nearly over
    local name reuse=() other pid next
    name=$(basename "$1" .yaml)
    for other in $(names); do
        [ "$other" = "$name" ] && break
        [ -f "$work/$other/study.json" ] && reuse+=("$work/$other")
    done
    timeout -k 5 $(($(left) - packing)) "$python" -m sightline study run "$1" -o "$work/$name" --jobs "$jobs" \
        --stop-after $(($(left) - packing - reserve)) ${reuse:+--reuse "${reuse[@]}"} \
        2> >(tee -a "$work/$name.txt" >&2) >"$work/.printed" &
    pid=$! next=$((SECONDS + every))
    while kill -0 $pid 2>/dev/null; do
        sleep 1
        [ $SECONDS -ge $next ] && [ "$(left)" -gt $((2 * packing)) ] && { pack; next=$((SECONDS + every)); }
    done
    { wait $pid; } 2>/dev/null && ! grep -q "trainings left" "$work/.printed" && touch "$work/$name/done"
    cat "$work/.printed" >>"$work/$name.txt"
    rm -f "$work/.printed"
}

report() {  # what is done, and what is left
    "$python" - "$work" $(names) <<'PYTHON'
import sys
from pathlib import Path

from sightline.study.plan import read_plan, unfinished

left = 0
for folder in (Path(sys.argv[1]) / name for name in sys.argv[2:]):
    if not (folder / "study.json").is_file():
        left += 1
        print(f"{folder.name}: not begun")
        continue
    plan = read_plan(folder)
    tasks = plan.tasks()
    waiting = len(unfinished(plan, tasks))
    left += not (folder / "done").is_file()
    failed = [f"    {task.name}: {sentence}" for task in tasks if (sentence := plan.failure(task)) is not None]
    print(f"{folder.name}: {f'{waiting} of {len(tasks)} trainings are left' if waiting else 'done'}", *failed, sep="\n")
print(f"{left} of {len(sys.argv) - 2} studies are left: the same command continues" if left else "nothing is left")
PYTHON
}

if [ -n "$kept" ] && compgen -G "$kept/kept.tar.gz.*" >/dev/null; then
    cat "$kept"/kept.tar.gz.* | tar -C "$work" -xz --skip-old-files || exit 1
fi
if [ -n "${RETRY:-}" ]; then
    for name in $(names); do
        grep -qs '"failure": "' "$work/$name"/runs/*/*/result.json "$work/$name"/sweeps/*/*/trial.json && rm -f "$work/$name/done"
    done
fi
pack
for study in "${studies[@]}"; do
    [ -f "$work/$(basename "$study" .yaml)/done" ] && continue
    [ "$(left)" -gt $((reserve + packing + 20)) ] || break
    run "$study"
    pack
done
if [ "$(left)" -gt $((2 * packing)) ]; then
    folders=()
    for name in $(names); do compgen -G "$work/$name/runs/*/*/result.json" >/dev/null && folders+=("$work/$name"); done
    for of in paper project; do
        timeout $(($(left) - packing)) "$python" -m sightline study claims "${folders[@]}" --of $of -o "$work/claims-of-$of.md"
    done
    pack
fi
report
