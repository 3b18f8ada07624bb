"""What people write around the words of a move: spellings of one thing, what the camera looks at, and words for other moves."""

from __future__ import annotations

import re
from typing import NamedTuple

_THING = r"(?:subject|object|scene|target|cent(?:er|re)|room)"
_SUBJECT = rf"(?:\s+(?:the|a|an|its|our))?\s+(?:{_THING}|it)"
_ROUND_MOVES = frozenset(("orbit", "arc", "spiral", "loop_orbit"))
_NEARING_MOVES = frozenset(("dolly", "dolly_zoom", "zoom", "loop_dolly"))

WHIPS = {"whip": 3.0, "swish": 3.0}  # so fast that the picture blurs: turns only
PACES = {"slow": 0.5, "slowly": 0.5, "fast": 2.0, "quick": 2.0, "quickly": 2.0, **WHIPS}
TIMES = {"over", "for", "during", "lasting", "within"}  # introduce seconds

# Replaced in this order, in lower case.
_SPELLINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b(?:counter|anti)[\s_-]*clockwise\b", "anticlockwise"),
        (r"\bmillimet(?:er|re)s?\b", "mm"),
        (r"\b(?:from\s+)?(?:the\s+)?left[\s-]+to[\s-]+(?:the\s+)?right\b", "right"),
        (r"\b(?:from\s+)?(?:the\s+)?right[\s-]+to[\s-]+(?:the\s+)?left\b", "left"),
        (r"\b(?:from\s+)?(?:the\s+)?(?:top|up)[\s-]+to[\s-]+(?:the\s+)?(?:bottom|down)\b", "down"),
        (r"\b(?:from\s+)?(?:the\s+)?(?:bottom|down)[\s-]+to[\s-]+(?:the\s+)?(?:top|up)\b", "up"),
        (r"\b(?:with\s+)?(?:a\s+)?radius\s+of\b|\bwith\s+(?:a\s+)?radius\b", "radius"),
        (r"\b(?:at|from)\s+a\s+distance\s+of\b", "radius"),
        (r"\bby\s+a\s+factor\s+of\s+([\d.]+)", r"\1x"),
        (  # zoom 35-85 mm, but not arc 30 -20
            r"(?<![\w.])(\d+(?:\.\d+)?(?:\s*mm)?)(?:[-\u2013\u2014]\s*|\s+[-\u2013\u2014]\s+)(?=\d)",
            r"\1 to ",
        ),
        (r"(?<=[^\W\d_])[_-]+(?=[^\W\d_])(?!\w*\s*=)", " "),  # "push-in" and "zoom_in", but not "target_depth=3"
    )
]


class Aim(NamedTuple):
    """Words that say what a move is about. They are refused with moves that they do not fit.

    nears: the move goes towards it. A zoom on the subject is a zoom in. leaves: the move goes away from it.
    """

    words: re.Pattern[str]
    moves: frozenset[str]
    expected: str
    nears: bool = False
    leaves: bool = False


AIMS = (
    Aim(re.compile(rf"\b(?:around|about)\b(?:{_SUBJECT}\b)?"), _ROUND_MOVES, "an orbit or arc with it"),
    Aim(
        re.compile(rf"\b(?:on|onto|into|to|towards?)\b{_SUBJECT}\b"),
        _NEARING_MOVES,
        "a move in with it, such as push in",
        nears=True,
    ),
    Aim(
        re.compile(rf"\bfrom\b{_SUBJECT}\b"),
        _NEARING_MOVES,
        "a move out with it, such as pull back",
        leaves=True,
    ),
    # "orbit the subject", once the others have been taken out.
    Aim(re.compile(rf"\b(?:(?:the|a|an|our)\s+)?{_THING}\b"), _ROUND_MOVES, "an orbit or arc with it"),
)

# Words of film makers that have no one meaning here, and what may have been meant.
SUGGESTIONS = {
    **dict.fromkeys(("rotate", "rotates", "rotating", "spin", "spins"), "pan (sideways), tilt (up or down) or roll"),
    **dict.fromkeys(("gentle", "gently", "subtle", "slight", "slightly"), "slow, or an amount"),
    **dict.fromkeys(
        ("smooth", "smoothly", "ease", "eased", "easing", "linear"),
        "the option --easing: ease, ease_in, ease_out or linear",
    ),
    **dict.fromkeys(
        ("steadicam", "gimbal", "drone", "aerial", "helicopter", "swoop", "follow"),
        "how it moves, such as move forward",
    ),
    **dict.fromkeys(("return", "returns", "reverse", "there"), "a loop, such as loop truck, or the opposite move"),
    **dict.fromkeys(("contra", "hitchcock"), "dolly zoom"),
    **dict.fromkeys(("canted", "cant", "canting"), "dutch tilt"),
    **dict.fromkeys(("crash", "snap", "punch"), "fast zoom in"),
    **dict.fromkeys(("bit", "little", "few", "several", "couple"), "an amount, such as 20 cm"),
    **dict.fromkeys(("very", "super"), "an amount, such as dolly in 0.1"),
    **dict.fromkeys(("swing", "swings", "swinging"), "pan (the camera turns) or orbit (it goes round the subject)"),
    **dict.fromkeys(("on", "onto"), "on the subject, or on it"),
    **dict.fromkeys(("before", "after"), "'then' between two moves"),
    **dict.fromkeys(("start", "starts", "starting"), "the moves alone, or to return a loop, such as loop truck"),
    **dict.fromkeys(("minus", "negative"), "a direction, such as left or back"),
    **dict.fromkeys(("tripod", "motionless"), "static"),
    "elevation": "arc:45:10, or elevation=10",
    "lens": "the option --focal-mm",
    "fps": "the option --fps",
    **dict.fromkeys(("sideways", "sideway", "lateral", "laterally"), "left or right"),
    **dict.fromkeys(("diagonal", "diagonally"), "two moves with 'and', such as truck left 1 and pedestal up 0.5"),
    "close": "push in or zoom in",
    **dict.fromkeys(("focus", "rack"), "a move or a zoom; there is no focus"),
    "barrel": "roll 360",
    "full": "the degrees, such as orbit 360",
    "half": "an amount, such as half a metre, or the degrees, such as orbit 180",
    "quarter": "an amount, such as a quarter of a metre, or the degrees, such as orbit 90",
}


def normalised(text: str) -> str:
    """Lower case, one kind of minus, and one spelling of what has several."""
    text = (
        text.strip()
        .lower()
        .replace("\N{MINUS SIGN}", "-")
        .replace("\N{MASCULINE ORDINAL INDICATOR}", "\N{DEGREE SIGN}")
    )
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return text
