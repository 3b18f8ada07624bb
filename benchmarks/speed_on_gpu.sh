#!/usr/bin/env bash
# The speed levels on one GPU in one command: tests on CUDA, then whole films, films with little memory, and training steps.
#
#     benchmarks/speed_on_gpu.sh OUT                       everything
#     benchmarks/speed_on_gpu.sh OUT tests film            some of: tests film small memory memory-14b train
#     STEPS=50 benchmarks/speed_on_gpu.sh OUT film         as many steps as the release takes
#
# Every part writes its log, json and picture under OUT at once; it has a limit of its own in seconds, and does not stop the next.
# PYTHON names the interpreter, STEPS the number of denoising steps of a film (20).
set -u
out=${1:?usage: benchmarks/speed_on_gpu.sh OUT [tests film small memory memory-14b train]}
shift
parts=${*:-tests film small memory memory-14b train}
python=${PYTHON:-python}
steps=${STEPS:-20}
. "$(dirname "$0")/gpu_parts.sh" || exit 1

film() {  # name, seconds, options ...
    local name=$1 limit=$2
    shift 2
    part "$name" "$limit" "$python" benchmarks/film_5b.py "$@" -o "$out/$name"
}

for one in $parts; do
    case $one in
        tests) part tests 400 "$python" -m pytest -q tests/backbones/test_speed_cuda.py tests/kernels/test_quantize.py \
            tests/backbones/test_speed.py tests/generation/test_speed.py ;;
        film) film film 560 --steps "$steps" ;;
        small) film small 240 --width 416 --height 256 --steps "$steps" --rows stock stock-compiled fast fast-uncompiled faster ;;
        memory) film memory 400 --steps "$steps" --rows exact fast faster --offload group --memory 12 ;;
        # A process of its own for each row: pinned memory that is freed stays with the process, and one row takes most of 128 GB.
        memory-14b) for row in fast faster; do
                film "memory-14b-$row" 400 --model 14b --steps 2 --rows "$row" --offload group --memory 24
            done ;;
        train)
            part train-eager 150 "$python" benchmarks/train_step.py --model 5b --steps 3
            part train-compiled 240 "$python" benchmarks/train_step.py --model 5b --steps 3 --compile
            part train-fast 240 "$python" benchmarks/train_step.py --model 5b --steps 3 --fused --compile ;;
        *) echo "part is '$one': expected tests, film, small, memory, memory-14b or train." >&2; exit 2 ;;
    esac
done
exit $status
