#!/usr/bin/env bash
# The fused kernels on one GPU in one command: tests on CUDA, then the bench.
#
#     benchmarks/kernels_on_gpu.sh OUT                      everything
#     benchmarks/kernels_on_gpu.sh OUT tests kernels        some of: tests kernels 5b 14b training
#     benchmarks/kernels_on_gpu.sh OUT sweep-warm sweep-tests sweep-5b sweep-training sweep-tune      Sweep beside SCoPE
#
# Every part writes its log, and a bench its json and picture, under OUT at once; it has a limit of its own in seconds, and does
# not stop the next.
# Parts are in the order of what must be known first; with pytest-xdist the tests take a fraction of their limit. PYTHON names
# the interpreter. What a part has measured before its limit is in its bench.json. sweep-warm compiles what sweep-5b and
# sweep-training time, during the tests; the first part that times waits for it.
set -u
out=${1:?usage: benchmarks/kernels_on_gpu.sh OUT [tests kernels 5b 14b training sweep-...]}
shift
parts=${*:-tests kernels 5b 14b training}
python=${PYTHON:-python}
for one in $parts; do
    case $one in
        tests | kernels | 5b | 14b | training | sweep-warm | sweep-tests | sweep-5b | sweep-training | sweep-tune) ;;
        *) echo "part is '$one': expected tests, kernels, 5b, 14b, training or one that starts with sweep-." >&2; exit 2 ;;
    esac
done
. "$(dirname "$0")/gpu_parts.sh" || exit 1

bench() {  # name, seconds, options ...
    local name=$1 limit=$2
    shift 2
    wait
    part "$name" "$limit" "$python" -m sightline bench "$@" -o "$out/$name"
}

warm() {  # what, modes ...; in the background
    local what=$1
    shift
    timeout 70 "$python" -m sightline bench "${sweep[@]}" --layers 1 --steps 1 --what "$what" --modes "$@" \
        -o "$out/sweep-warm-$what" >"$out/sweep-warm-$what.log" 2>&1 &
}

sweep=(--model 5b --methods stock scope sweep --rival-modes "fused compiled")
several=()
"$python" -c "import xdist" 2>/dev/null && several=(-n "$((($(nproc) * 3 + 3) / 4))")
for one in $parts; do
    case $one in
        tests) part tests 240 "$python" -m pytest -q "${several[@]}" tests/kernels tests/backbones/test_accelerate.py ;;
        kernels) bench kernels 120 --model 5b 14b --what kernels ;;
        5b) bench 5b 180 --model 5b --what inference --modes eager compiled "fused compiled" \
            --rival-modes compiled "fused compiled" ;;
        14b) bench 14b 120 --model 14b --layers 4 --steps 5 --what inference --methods stock scope ucpe prope \
            --modes compiled "fused compiled" --rival-modes compiled "fused compiled" ;;
        training) bench training 150 --model 5b --layers 8 --steps 5 --what training --methods stock scope \
            --modes compiled "fused compiled" ;;
        sweep-warm)
            warm inference compiled "fused compiled"
            warm training "fused compiled" ;;
        sweep-tests) part sweep-tests 70 "$python" -m pytest -q "${several[@]}" tests/kernels/test_qk.py ;;
        sweep-5b) bench sweep-5b 45 "${sweep[@]}" --steps 12 --what inference --modes compiled "fused compiled" ;;
        sweep-training) bench sweep-training 40 "${sweep[@]}" --layers 8 --steps 10 --what training --modes "fused compiled" ;;
        sweep-tune) wait; part sweep-tune 60 "$python" benchmarks/tune_kernels.py --cameras sweep -o "$out/sweep-tune.json" ;;
    esac
done
wait
exit $status
