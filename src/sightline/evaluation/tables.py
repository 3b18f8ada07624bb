"""Tables in the paper's layout, as markdown. Beside every mean stands how many clips were asked for, scored and failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.results import TITLES

_COUNTS = ("n asked", "n scored", "n failed")
_ERRORS = ("rot_err", "trans_err", "cam_mc", "ate")
_QUALITY = tuple(name for name, metric in METRICS.items() if not metric.distance)
_DISTANCES = tuple(name for name, metric in METRICS.items() if metric.distance)
_REVISIT = (
    "return_ratio", "return_rotation", "normalised_ate", "return_lpips", "lpips_recovery", "return_dino",
    "return_cosine_efflite0",
)  # fmt: skip
NOTHING = "-"


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """The tables of one run, or of several of one protocol, a row each; the estimator's floor is the last row."""
    protocol = results[0]["protocol"]
    parts = [f"# {protocol.capitalize()}", _how(results[0]), _left_out(results)]
    if protocol == "revisit":
        parts.append(_table("Camera return and appearance recovery", _REVISIT, (), results))
    elif protocol == "beyond":
        parts.append(_beyond(results))
    else:
        for alignment, words in (("raw", "raw, unscaled"), ("rescaled", "each path over its own maximum")):
            keys = (*_QUALITY, *(f"{name} {alignment}" for name in _ERRORS))
            parts.append(_table(f"{alignment.capitalize()} ({words})", keys, _DISTANCES, results))
    parts += [_distance_notes(results), _failures(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def header(key: str) -> str:
    title, better = TITLES[key]
    for alignment in ("raw", "rescaled", "gt_scaled"):
        title = title.removesuffix(f" {alignment}")
    return f"{title} {'↑' if better == 'higher' else '↓'}"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def figure(value: float | None) -> str:
    """Four significant digits, without an exponent where it can be helped; what is left of rounding is 0."""
    if value is None:
        return NOTHING
    value = 0.0 if abs(value) < 1e-9 else value
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"


def _table(title: str, keys: Sequence[str], distances: Sequence[str], results: Sequence[dict[str, Any]]) -> str:
    keys = [key for key in keys if any(key in one["scores"] or key in one["floor"] for one in results)]
    distances = [key for key in distances if any(key in one["distances"] for one in results)]
    rows = []
    for one in results:
        cells = [figure(one["scores"].get(key, {}).get("mean")) for key in keys]
        cells += [figure(one["distances"].get(key, {}).get("distance")) for key in distances]
        rows.append([one["label"], *cells, *(str(one["n"][name]) for name in ("asked", "scored", "failed"))])
    rows.append(_floor_row(keys, distances, results[0]))
    return f"## {title}\n\n" + grid(["Method", *map(header, keys), *map(header, distances), *_COUNTS], rows)


def _floor_row(keys: Sequence[str], distances: Sequence[str], one: dict[str, Any]) -> list[str]:
    """The true videos through the same estimator; of distances, one half of them against the other."""
    cells = [figure(one["floor"].get(key, {}).get("mean")) for key in keys]
    cells += [figure(one["distances"].get(key, {}).get("floor")) for key in distances]
    n = one["n"]
    return ["floor: the true videos", *cells, str(n["asked"]), str(n["floor"]), str(n["asked"] - n["floor"])]


def _beyond(results: Sequence[dict[str, Any]]) -> str:
    distances = [key for key in _DISTANCES if any(key in one["distances"] for one in results)]

    def pair(place: dict[str, Any], name: str) -> str:
        return "/".join(figure(place.get(f"{name} {alignment}", {}).get("mean")) for alignment in ("raw", "rescaled"))

    rows = [
        [
            one["label"], *(pair(one["scores"], name) for name in _ERRORS),
            *(figure(one["distances"].get(key, {}).get("distance")) for key in distances),
            *(str(one["n"][name]) for name in ("asked", "scored", "failed")),
        ]
        for one in results
    ]  # fmt: skip
    first = results[0]
    floor = _floor_row([], distances, first)
    rows.append([floor[0], *(pair(first["floor"], name) for name in _ERRORS), *floor[1:]])
    head = ["Method", *(header(f"{name} raw") for name in _ERRORS), *map(header, distances), *_COUNTS]
    return "## Beyond the domain of the standard protocol (raw/rescaled)\n\n" + grid(head, rows)


def _how(one: dict[str, Any]) -> str:
    """How the numbers were made, in a sentence that a reader can check."""
    made = one["settings"]
    against = "the commanded path" if made["against"] == "path" else "the same estimator's path of the true video"
    sources = ", ".join(sorted({source["name"] for source in made["sources"]}))
    if one["protocol"] == "revisit":
        poses = "Camera return uses the estimated path alone; normalised ATE compares with the commanded path"
        poses += ", each over its own maximum. Scores are means over a window, then over the loops of an image, then over images"
    else:
        metres = not made.get("near_depth") and all(source.get("unit") == "metre" for source in made["sources"])
        poses = (
            f"Pose errors compare anchored paths with {against}: means over frames (frame 0 counted), then over clips. "
        )
        poses += f"Raw lengths are in {'metres' if metres else 'the unit of each path'}"
    return (
        f"{poses}. Estimator: {made['estimator']}. Sources: {sources}. {made['steps']} steps, text guidance {made['cfg']:g}, "
        f"camera guidance {made['camera_cfg']:g}, seeds from {made['seed']}. `n` counts clips whose camera was asked for, "
        "scored, and could not be scored; pictures are scored of every clip that was filmed "
        f"({one['n']['filmed']} of {one['n']['asked']})."
    )


def _left_out(results: Sequence[dict[str, Any]]) -> str:
    found = {TITLES[name][0]: why for one in results for name, why in one["settings"].get("left_out", {}).items()}
    return "\n".join(f"- Left out {title}: {why}" for title, why in found.items())


def _distance_notes(results: Sequence[dict[str, Any]]) -> str:
    lines = []
    for one in results:
        for key, found in one["distances"].items():
            floor = "no floor, since there is one clip" if found["floor"] is None else (
                f"floor {figure(found['floor'])} between two halves of the real clips of {found['n_floor']}"
            )  # fmt: skip
            lines.append(
                f"- {one['label']}, {TITLES[key][0]}: n = {found['n_generated']} generated and {found['n_real']} real features "
                f"of {found['dimensions']} dimensions, from {found['clips']} clips; {floor}."
            )
    return "\n".join(lines)


def _failures(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"- {one['label']}, {found['clip']}, {found['stage']}: {found['sentence']}"
        for one in results
        for found in one["failures"]
    ]
    return "## Failures\n\n" + ("\n".join(lines) if lines else "None.")
