#!/usr/bin/env bash
# The speed levels on one GPU in one command: tests on CUDA, then whole films, steps in FP8, films with little memory, and training.
#
#     benchmarks/speed_on_gpu.sh OUT                       everything
#     benchmarks/speed_on_gpu.sh OUT tests film            some of those below, in this order
#     STEPS=20 benchmarks/speed_on_gpu.sh OUT film         shorter films (default: 50, as the release takes)
#
# Parts are in the order of what must be known first. Every part writes its log, json and picture under OUT at once, row by row;
# it has a limit of its own in seconds, and does not stop the next. The tests take a small part of their limit with pytest-xdist.
# PYTHON names the interpreter. Estimated for an H200, in seconds: tests 80, film 390, step 50, memory 180, small 100, each train 80,
# memory-14b 350. Tests and film together end within 570, and so do step, memory, small and train-fast.
set -u
out=${1:?usage: benchmarks/speed_on_gpu.sh OUT [tests film step ...]}
shift
all="tests film step memory small train-fast train-compiled train-eager memory-14b"
parts=${*:-$all}
python=${PYTHON:-python}
for one in $parts; do
    case $one in
        tests | film | step | memory | small | train-fast | train-compiled | train-eager | memory-14b) ;;
        *) echo "part is '$one': expected one of $all." >&2; exit 2 ;;
    esac
done
. "$(dirname "$0")/gpu_parts.sh" || exit 1

film() {  # name, seconds, options ...
    local name=$1 limit=$2
    shift 2
    part "$name" "$limit" "$python" benchmarks/film_5b.py "$@" -o "$out/$name"
}

train() {  # name, seconds, options ...
    local name=$1 limit=$2
    shift 2
    part "$name" "$limit" "$python" benchmarks/train_step.py --model 5b --steps 3 "$@"
}

several=()
"$python" -c "import xdist" 2>/dev/null && several=(-n "$((($(nproc) * 3 + 3) / 4))")
for one in $parts; do
    case $one in
        # Those of a CPU show that a compiler of this version makes one graph for all blocks.
        tests) part tests 125 env TORCHINDUCTOR_COMPILE_THREADS=1 "$python" -m pytest -q --tb=short "${several[@]}" \
            tests/backbones/test_speed_cuda.py tests/kernels/test_quantize.py tests/backbones/test_speed.py \
            tests/backbones/test_low_precision_linear.py tests/generation/test_speed.py ;;
        film) film film 440 --steps "${STEPS:-50}" ;;
        step) part step 80 "$python" -m sightline bench --model 5b --what inference --methods scope -o "$out/step" \
            --modes "fused compiled" "fused fp8 compiled" ;;
        memory) film memory 230 --steps 10 --rows fast faster exact --offload group --memory 12 ;;
        small) film small 120 --width 416 --height 256 --steps 20 --rows stock-compiled fast faster fast-uncompiled ;;
        train-fast) train "$one" 110 --fused --compile ;;
        train-compiled) train "$one" 110 --compile ;;
        train-eager) train "$one" 90 ;;
        # A process of its own for each row: pinned memory that is freed stays with the process, and one row takes most of 128 GB.
        memory-14b) for row in fast faster; do
                film "memory-14b-$row" 240 --model 14b --steps 2 --rows "$row" --offload group --memory 24
            done ;;
    esac
done
exit $status
