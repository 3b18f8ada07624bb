"""Named colours, and palettes of colours that suit each other."""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = {
    "red": "#c0392b", "blue": "#2f6db5", "navy": "#26395c", "sky blue": "#8fbcd9", "teal": "#2a7f80",
    "turquoise": "#45b3a8", "mint": "#b9dbc7", "green": "#4f8f4a", "forest green": "#2f5a3c", "sage": "#98a98a",
    "olive": "#7c7a3f", "yellow": "#e3b93c", "mustard": "#c9992b", "gold": "#b98f3e", "orange": "#dd7a34",
    "coral": "#e2735f", "terracotta": "#b8603f", "pink": "#dda0a6", "rose": "#b9586e", "plum": "#6d3f63",
    "lavender": "#a79bc4", "brown": "#6e4a30", "oak": "#b98a5a", "walnut": "#6a4630", "birch": "#d9bf95",
    "sand": "#d6c29c", "cream": "#eee2c6", "beige": "#d9cbb2", "white": "#efece6", "grey": "#8d9097",
    "warm grey": "#b5ada3", "slate": "#56616e", "charcoal": "#3a3d43", "brick red": "#9c4a3a", "black": "#2a2a2d",
}  # fmt: skip
DARK = (0.02, 0.02, 0.02)  # mixed into other tones for grain and joints


@dataclass(frozen=True)
class Palette:
    name: str
    walls: tuple[str, ...]
    feature: tuple[str, ...]  # the one wall painted differently
    accents: tuple[str, ...]  # furniture, cushions, pictures
    woods: tuple[str, ...]


PALETTES = (
    Palette("nordic", ("white", "warm grey"), ("sage", "sky blue"), ("navy", "mustard", "grey", "terracotta"), ("birch", "oak")),
    Palette("clay", ("cream", "beige"), ("terracotta", "sand"), ("teal", "mustard", "brown", "sage"), ("oak", "walnut")),
    Palette("garden", ("mint", "white"), ("sage", "mint"), ("coral", "navy", "yellow", "white"), ("birch", "oak")),
    Palette("plum", ("warm grey", "beige"), ("plum", "rose"), ("rose", "gold", "charcoal", "lavender"), ("walnut", "oak")),
    Palette("coast", ("white", "sky blue"), ("navy", "turquoise"), ("red", "sand", "blue", "turquoise"), ("birch", "sand")),
    Palette("forest", ("sand", "cream"), ("forest green", "olive"), ("orange", "cream", "green", "brown"), ("walnut", "oak")),
    Palette("primary", ("white", "cream"), ("yellow", "sky blue"), ("red", "blue", "yellow", "green"), ("birch", "oak")),
    Palette("dusk", ("lavender", "warm grey"), ("slate", "plum"), ("orange", "pink", "cream", "teal"), ("walnut", "birch")),
)  # fmt: skip

FACADES = ("brick red", "sand", "cream", "warm grey", "terracotta", "sky blue", "pink", "sage", "mustard", "white")
GROUNDS = {"grass": "#6f8f4a", "gravel": "#a59c8c", "asphalt": "#6b6d71", "sand": "#cdb88c", "paving": "#a8a29a"}

Colour = tuple[float, float, float]


def linear(colour: str) -> Colour:
    """A colour by its name here or as #rrggbb, in the linear light the renderer works in (display = square root)."""
    text = COLOURS.get(colour, colour)
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red * red, green * green, blue * blue


def mix(first: Colour, second: Colour, fraction: float) -> Colour:
    """`fraction` of the second colour in the first."""
    red, green, blue = (a + (b - a) * fraction for a, b in zip(first, second, strict=True))
    return red, green, blue
