#!/usr/bin/env bash
# Two ways to train the lab model in the same number of steps, on the same clips, and the PSNR of both:
#
#     joint        all weights together with the camera, from scratch (as the model that ships)
#     two-stages   as in the paper: half of the steps without a camera, then the encoding is added, and half of the steps train it
#                  with self-attention, feed-forward and modulation
#
#     benchmarks/lab_stages.sh OUT [STEPS]         2400 steps: about ten minutes on one H200, where both ways train at the same time
#
# OUT gets the logs, and joint.json and two-stages.json of `sightline lab measure`. PYTHON names the interpreter, CLIPS how many
# clips of each style to train on (3000), SIZE the transformer (--layers 9 --heads 8 --ffn 1920), MEASURE options of lab measure.
set -u
out=${1:?usage: benchmarks/lab_stages.sh OUT [STEPS]} steps=${2:-2400}
python=${PYTHON:-python} clips=${CLIPS:-3000}
read -ra size <<<"${SIZE:---layers 9 --heads 8 --ffn 1920}"
read -ra measure <<<"${MEASURE:---clips 32}"
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
work=outputs/lab-stages
rm -rf "$work"

sightline() { "$python" -m sightline "$@"; }

train() {  # folder, steps, options ...
    local folder=$1 of=$2 sources=() style
    shift 2
    for style in walkthrough orbit panorama openworld; do
        sources+=("worlds:$style?clips=$clips&paths=2&mirrored=true&moves=0.35&returning=0.2&unit=metre")
    done
    sightline train lab-joint --optimizer.max-steps "$of" --optimizer.max-seconds None --optimizer.warmup-steps $((of / 8)) \
        --validation.num-videos 0 \
        --data.shapes 33x128x128 --data.shape-weights 1 --data.sources "${sources[@]}" --output "$work/$folder" "$@"
}

joint() {
    train joint "$steps" --model.base "$work/start" &&
        sightline train export "$work/joint" "$work/joint-model" &&
        sightline lab pack "$work/start" --camera "$work/joint-model" -o "$work/joint-packed" &&
        sightline lab measure "${measure[@]}" --base "$work/joint-packed/base" --model "$work/joint-packed/sweep.safetensors" -o "$out/joint.json"
}

two_stages() {
    train blind $((steps / 2)) --model.base "$work/start" --model.encoding none &&
        sightline train export "$work/blind" "$work/blind-model" &&
        sightline lab assemble --vae lab --text lab --transformer "$work/blind-model" -o "$work/blind-base" &&
        train retrofit $((steps / 2)) --model.base "$work/blind-base" --model.trainable paper &&
        sightline train export "$work/retrofit" "$work/retrofit-model" &&
        sightline lab pack "$work/blind-base" --camera "$work/retrofit-model" -o "$work/retrofit-packed" &&
        sightline lab measure "${measure[@]}" --base "$work/retrofit-packed/base" --model "$work/retrofit-packed/sweep.safetensors" -o "$out/two-stages.json"
}

sightline lab assemble --vae lab --text lab "${size[@]}" -o "$work/start" || exit 1
joint >"$out/joint.log" 2>&1 &
two_stages >"$out/two-stages.log" 2>&1 || failed=1
wait $! || failed=1
tail -n 25 "$out/joint.log" "$out/two-stages.log"
exit ${failed:-0}
