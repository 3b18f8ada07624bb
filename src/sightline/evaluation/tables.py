"""Tables in the paper's layout, as markdown. Beside every mean stands how many clips were asked for, scored and failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.results import CaseSettings, Counts, MeanScore, PaperRecord, RunResults, Sampling
from sightline.evaluation.scores import POSE_ERRORS, REVISIT_SCORES, SCORES, pose_key
from sightline.evaluation.units import same_unit, unit_words

_COUNTS = ("n asked", "n scored", "n failed")
_QUALITY = tuple(name for name, metric in METRICS.items() if not metric.distance)
_DISTANCES = tuple(name for name, metric in METRICS.items() if metric.distance)
NO_VALUE = "-"
# Where the true video is the reference itself, its floor is measured on a compressed copy (see scoring.score_standard).
_FLOOR = {"trajectory": "estimator floor: the true videos", "video": "estimator floor: the true videos, compressed"}


def markdown(runs: Sequence[RunResults]) -> str:
    """The tables of one run, or of several runs of one protocol with a row each. The estimator floor is the last row."""
    protocol = runs[0].protocol
    parts = [
        f"# {protocol.capitalize()}",
        _method(runs[0]),
        *map(_units, runs),
        _left_out(runs),
        *(paper_section(run.label, run.settings.paper) for run in runs),
    ]
    if protocol == "revisit":
        parts.append(_table("Camera return and appearance recovery", REVISIT_SCORES, (), runs))
    elif protocol == "beyond":
        parts.append(_beyond(runs))
    else:
        raw, rescaled = (
            (*_QUALITY, *(pose_key(error, alignment) for error in POSE_ERRORS)) for alignment in ("raw", "rescaled")
        )
        parts.append(_table("Raw (raw, unscaled)", raw, _DISTANCES, runs))
        parts.append(_table("Rescaled (each trajectory over its own maximum)", rescaled, _DISTANCES, runs))
    parts += [_distance_notes(runs), _failures(runs)]
    return "\n\n".join(part for part in parts if part) + "\n"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def format_number(value: float | None) -> str:
    """Four significant digits, without an exponent below 1000; rounding errors around 0 are printed as 0."""
    if value is None:
        return NO_VALUE
    value = 0.0 if abs(value) < 1e-9 else value
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"


def floor_label(run: RunResults) -> str:
    """What the row of the estimator floor is called."""
    return _FLOOR["trajectory" if run.protocol == "revisit" else run.settings.against]


def _mean(means: dict[str, MeanScore], key: str) -> str:
    return format_number(means[key].mean if key in means else None)


def _distance(run: RunResults, key: str, between_halves: bool = False) -> str:
    if key not in run.distances:
        return NO_VALUE
    distance = run.distances[key]
    return format_number(distance.between_halves if between_halves else distance.distance)


def _counts(counts: Counts, estimator_floor: bool = False) -> list[str]:
    scored = counts.estimator_floor if estimator_floor else counts.scored
    return [str(counts.asked), str(scored), str(counts.asked - scored)]


def _header(key: str) -> str:
    return f"{SCORES[key].heading} {SCORES[key].arrow}"


def _table(title: str, scores: Sequence[str], distances: Sequence[str], runs: Sequence[RunResults]) -> str:
    """The last row holds the true videos under the same estimator; for distances, one half of them against the other."""
    keys = [key for key in scores if any(key in run.means or key in run.estimator_floor for run in runs)]
    sets = [key for key in distances if any(key in run.distances for run in runs)]
    rows = _rows(runs, lambda means: [_mean(means, key) for key in keys], sets)
    return f"## {title}\n\n" + grid(["Method", *map(_header, [*keys, *sets]), *_COUNTS], rows)


def _beyond(runs: Sequence[RunResults]) -> str:
    """Raw and rescaled pose errors in one cell."""
    sets = [key for key in _DISTANCES if any(key in run.distances for run in runs)]

    def pair(means: dict[str, MeanScore], error: str) -> str:
        return "/".join(_mean(means, pose_key(error, alignment)) for alignment in ("raw", "rescaled"))

    rows = _rows(runs, lambda means: [pair(means, error) for error in POSE_ERRORS], sets)
    head = ["Method", *(_header(pose_key(error, "raw")) for error in POSE_ERRORS), *map(_header, sets), *_COUNTS]
    return "## Beyond the domain of the standard protocol (raw/rescaled)\n\n" + grid(head, rows)


def _rows(
    runs: Sequence[RunResults], cells: Callable[[dict[str, MeanScore]], list[str]], distances: Sequence[str]
) -> list[list[str]]:
    """A row of each run and, last, of the estimator floor of the first one: label, cells of the means, distances, counts."""
    rows = [
        [run.label, *cells(run.means), *(_distance(run, key) for key in distances), *_counts(run.counts)]
        for run in runs
    ]  # fmt: skip
    first = runs[0]
    halves = [_distance(first, key, between_halves=True) for key in distances]
    floor = cells(first.estimator_floor)
    return [*rows, [floor_label(first), *floor, *halves, *_counts(first.counts, estimator_floor=True)]]


def _method(run: RunResults) -> str:
    """How the numbers were made."""
    settings, sampling, cases = run.settings, run.settings.sampling, run.settings.cases
    sources = ", ".join(sorted({source["name"] for source in cases.sources}))
    if run.protocol == "revisit":
        poses = (
            "Camera return uses the estimated trajectory alone; normalised ATE compares with the commanded trajectory, each "
            "over its own maximum. Scores are means over a window, then over the loops of an image, then over images"
        )
    else:
        reference = {
            "trajectory": "the commanded trajectory",
            "video": "the same estimator's trajectory of the true video",
        }[settings.against]
        poses = (
            f"Pose errors compare anchored trajectories with {reference}: means over frames (frame 0 counted), then "
            "over clips"
        )
    return (
        f"{poses}. Estimator: {settings.estimator}. Sources: {sources}; {cases.num_frames} frames of "
        f"{cases.width}x{cases.height}, every {_ordinal(cases.stride)}frame of a shot. "
        f"{sampling.num_inference_steps} steps, text guidance {sampling.guidance_scale:g}, camera guidance "
        f"{sampling.camera_guidance_scale:g}, seeds from "
        f"{sampling.seed}{_prompts(sampling, cases)}. `n` "
        "counts the clips whose camera was asked for, scored, and could not be scored; image metrics cover every clip that "
        f"was generated ({run.counts.generated} of {run.counts.asked})."
    )


def _prompts(sampling: Sampling, cases: CaseSettings) -> str:
    """The prompts that do not come from a caption."""
    text = "" if sampling.negative_prompt is None else f", negative prompt {sampling.negative_prompt!r}"
    if without := cases.clips - cases.with_caption:
        text += f". {without} of {cases.clips} clips have no caption; their prompt is {cases.default_caption!r}"
    return text


def _units(run: RunResults) -> str:
    """The unit of raw lengths, and which clips have none because estimate and reference share no unit."""
    if run.protocol == "revisit":  # has no raw lengths
        return ""
    videos = [clip.generated for clip in run.clips if clip.generated.unit is not None]
    pairs = Counter((str(video.unit), str(video.reference_unit)) for video in videos)
    shared = {unit for unit, reference in pairs if same_unit(unit, reference)}
    words = sorted(map(unit_words, shared))
    sentences = [f"Raw lengths are in {words[0]}."] if len(words) == 1 else []
    if len(words) > 1:
        sentences = [f"Raw lengths have no mean: some clips are in {', others in '.join(words)}."]
    sentences += [
        f"Raw lengths of {count} clip{'s' * (count > 1)} are left out: the estimated trajectory is in {unit_words(unit)} and its "
        f"reference in {unit_words(reference)}; lengths are compared rescaled, each trajectory over its own maximum."
        for (unit, reference), count in pairs.items()
        if not same_unit(unit, reference)
    ]
    return " ".join(sentences)


def paper_section(label: str, record: PaperRecord | None) -> str:
    """What the paper fixes, where the run differs, and what the paper leaves open; empty for a run of another protocol."""
    if record is None:
        return ""
    deviations = record.deviations or ["none"]
    return "\n\n".join(
        [
            f"## {label} and the paper's protocol",
            f"The paper fixes {'; '.join(record.fixed)}. Deviations of this run:",
            "\n".join(f"- {line}" for line in deviations),
            "Not stated in the paper, and chosen here:",
            "\n".join(f"- {line}" for line in record.left_open),
        ]
    )


def _left_out(runs: Sequence[RunResults]) -> str:
    reasons = {SCORES[name].title: reason for run in runs for name, reason in run.settings.left_out.items()}
    return "\n".join(f"- Left out {title}: {reason}" for title, reason in reasons.items())


def _distance_notes(runs: Sequence[RunResults]) -> str:
    lines = []
    for run in runs:
        for key, distance in run.distances.items():
            halves = "too few real clips to compare two halves of them"
            if distance.between_halves is not None:
                halves = f"{format_number(distance.between_halves)} between two halves of the real clips of {distance.n_half}"
            lines.append(
                f"- {run.label}, {SCORES[key].title}: n = {distance.n_generated} generated and {distance.n_real} real features "
                f"of {distance.dimensions} dimensions, from {distance.clips} clips; {halves}."
            )
    return "\n".join(lines)


def _failures(runs: Sequence[RunResults]) -> str:
    lines = [
        f"- {run.label}, {clip}, {failure.stage}: {failure.message}" for run in runs for clip, failure in run.failures
    ]
    return "## Failures\n\n" + ("\n".join(lines) if lines else "None.")


def _ordinal(number: int) -> str:
    """ "" for 1, then "2nd " and so on."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return "" if number == 1 else f"{number}{ending} "
