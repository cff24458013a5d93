"""Pictures as SVG text: axes, and marks whose colours the style sheet decides (light, dark, paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor, isfinite, log10
from sys import float_info
from typing import Any, TypeVar
from unicodedata import combining, east_asian_width

import numpy as np
from numpy.typing import NDArray

from .page import escaped, macro, style

WIDE, RIGHT, TOP, BOTTOM = 720, 18, 24, 44
N_COLOURS = 7
LARGEST = float_info.max

Range = tuple[float, float]
Ticks = Sequence[tuple[float, str]]
Value = TypeVar("Value", float, NDArray[np.float64])


def short(value: float, digits: int = 3) -> str:
    """Return a number as a short text: thousands with commas, small and enormous ones with the digits that matter."""
    if not abs(value) < 1e15:
        return f"{value:.{digits}g}"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Return round numbers from ``low`` to ``high``: steps of 1, 2 or 5 times a power of ten."""
    span = high - low or 1.0
    if not isfinite(span):
        return [2 * tick for tick in ticks(low / 2, high / 2, most)]
    power = 10.0 ** floor(log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= most)
    step = max(1.0, round(step)) if whole else step
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    decimals = 2 - floor(log10(step))
    return [round(number * step, decimals) for number in range(first, last + 1)]


@lru_cache(maxsize=1000)  # the same names are laid out wide and narrow
def breadth(text: str) -> float:
    """Return about how many pixels a text takes at 12 pixels height; full-width letters take twice those of Latin."""
    return sum(
        0.0 if combining(c) else 12.0 if east_asian_width(c) in "WF"
        else 10.5 if c in "MWmw@%" else 8.4 if c.isupper() else 6.7
        for c in text
    )  # fmt: skip


def shortened(text: str, room: float) -> str:
    """Return a text that takes at most ``room`` pixels, with an ellipsis in the middle where something was cut."""
    if breadth(text) <= room:
        return text
    head, tail = text, ""
    while head and breadth(head) + breadth(tail) + 12.0 > room:
        head, tail = (head[:-1], tail) if len(head) > len(tail) else (head, tail[1:])
        if len(head) - len(tail) > 2 and breadth(tail) < room / 3:
            head, tail = head[:-1], text[len(text) - len(tail) - 1 :]
    return f"{head}…{tail}"


@dataclass(frozen=True)
class Scale:
    """The places of values on two axes, in pixels of a picture of one width; by halves: a span may be beyond floats."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: Range
    y_range: Range

    def x(self, value: Value) -> Value:
        """Return where a value, or each of several, lies on the horizontal axis."""
        low, high = self.x_range
        return self.left + (value / 2 - low / 2) / (high / 2 - low / 2) * (self.right - self.left)

    def y(self, value: Value) -> Value:
        """Return where a value, or each of several, lies on the vertical axis."""
        low, high = self.y_range
        return self.bottom - (value / 2 - low / 2) / (high / 2 - low / 2) * (self.bottom - self.top)


@dataclass
class Picture:
    """Axes and marks on them, in units of the data; drawn once and laid out for any width.

    ``colour`` of a mark is a number (a series), or a class of the style sheet. Ticks are (value, name), by default
    round numbers; names that are too long are cut, and whole under the pointer.
    """

    title: str
    x_label: str
    y_label: str
    x_range: Range
    y_range: Range
    height: int = 240
    x_ticks: Ticks | None = None
    y_ticks: Ticks | None = None
    caption: str = ""
    marks: list[Callable[[Scale], str]] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x_range, self.y_range = _wide(self.x_range), _wide(self.y_range)
        self.y_ticks = named(ticks(*self.y_range, most=5)) if self.y_ticks is None else self.y_ticks

    def bar(self, x0: float, x1: float, y0: float, y1: float, colour: int | str, hint: str = "") -> None:
        """Draw a rectangle; ``hint`` appears under the pointer."""
        self.cells([(x0, x1, y0, y1)], colour, hint)

    def cells(self, cells: Iterable[tuple[float, float, float, float]], colour: int | str, hint: str = "") -> None:
        """Draw many rectangles (x0, x1, y0, y1) of one colour as one path."""
        boxes = np.array(list(cells), dtype=np.float64)

        def mark(at: Scale) -> str:
            x0, x1, y0, y1 = boxes.T
            corners = zip(at.x(x0), at.x(x1), at.y(y1), at.y(y0), strict=True)
            path = "".join([f"M{a:.1f} {top:.1f}H{b:.1f}V{low:.1f}H{a:.1f}z" for a, b, top, low in corners])
            return _with_hint("path", f'class="{_class(colour)}" d="{path}"', hint)

        if boxes.size:
            self.marks.append(mark)

    def line(self, points: Iterable[tuple[float, float]], colour: int | str, hint: str = "") -> None:
        """Draw straight lines from point to point; points that are not finite have no place, and are left out."""
        self._path([(x, y) for x, y in points if isfinite(x) and isfinite(y)], _class(colour, line=True), hint=hint)

    def across(self, colour: str, x: float | None = None, y: float | None = None, hint: str = "") -> None:
        """Draw an upright line at ``x`` or a level one at ``y``, from one end of the picture to the other."""
        ends = [(x, end) for end in self.y_range] if x is not None else [(end, y or 0.0) for end in self.x_range]
        self.line(ends, colour, hint)

    def area(self, low: Iterable[tuple[float, float]], high: Iterable[tuple[float, float]], colour: str) -> None:
        """Fill what lies between two lines."""
        self._path([*low, *reversed([*high])], _class(colour), "z")

    def _path(self, corners: Sequence[tuple[float, float]], css: str, end: str = "", hint: str = "") -> None:
        def mark(at: Scale) -> str:
            x, y = np.array(corners, dtype=np.float64).T
            path = "L".join([f"{a:.1f} {b:.1f}" for a, b in zip(at.x(x), at.y(y), strict=True)])
            return _with_hint("path", f'class="{css}" d="M{path}{end}"', hint)

        if corners:
            self.marks.append(mark)

    def dots(self, points: Iterable[tuple[float, float, str]], colour: int | str, radius: float = 4.0) -> None:
        """Draw a dot at each (x, y, hint)."""
        places = list(points)

        def mark(at: Scale) -> str:
            css, size = _class(colour), f'r="{radius:.1f}"'
            circles = ((f'cx="{at.x(a):.1f}" cy="{at.y(b):.1f}"', hint) for a, b, hint in places)
            return "".join(_with_hint("circle", f'class="{css}" {centre} {size}', hint) for centre, hint in circles)

        self.marks.append(mark)

    def series(self, points: Sequence[tuple[float, float, str]], colour: int, words: str) -> None:
        """Draw a line through dots at each (x, y, hint), and name it in the legend."""
        self.line([(x, y) for x, y, _ in points], colour)
        self.dots(points, colour)
        self.name(words, colour, "line")

    def text(self, x: float, y: float, words: str, anchor: str) -> None:
        """Write a word at a place in units of the data; nothing where it is not finite."""

        def mark(at: Scale) -> str:
            place = f'x="{at.x(x):.1f}" y="{at.y(y) + 4:.1f}"'
            return f'<text class="label" {place} text-anchor="{anchor}">{escaped(words)}</text>'

        if isfinite(x) and isfinite(y):
            self.marks.append(mark)

    def name(self, words: str, colour: int | str, mark: str = "fill") -> None:
        """Add an entry to the legend: a filled box, or ``mark="line"`` or ``"dot"``."""
        shapes = {"line": 'path{} d="M0 6H18"', "dot": 'circle{} cx="9" cy="6" r="4"'}
        css = f' class="{_class(colour, mark == "line")}"'
        drawn = shapes.get(mark, 'rect{} y="1" width="17" height="10"').format(css)
        box = 'class="swatch" width="18" height="12" viewBox="0 0 18 12" aria-hidden="true"'
        self.legend.append((words, f"<svg {box}><{drawn}/></svg>"))

    def svg(self, width: int = WIDE, css: str = "") -> str:
        """Return the picture alone, laid out for a width in pixels; its colours come from the page's style sheet."""
        label = escaped(f"{self.title}. {self.caption}".strip())
        longest = max((breadth(name) for _, name in self.y_ticks or ()), default=0.0)
        left = min(max(longest + 12.0, 34.0), width * 0.4)
        scale = Scale(left, width - RIGHT, TOP if self.y_label else 8, self.height - BOTTOM, self.x_range, self.y_range)
        head = f'<svg class="{css}" viewBox="0 0 {width} {self.height}" role="img" aria-label="{label}">'
        return f"{head}{self._axes(scale)}{''.join(mark(scale) for mark in self.marks)}</svg>"

    def file(self) -> str:
        """Return the picture as an SVG file that needs nothing else, with its title and legend in it."""
        return stacked([self])

    def __html__(self) -> str:
        return macro("figure", self)

    def _axes(self, at: Scale) -> str:
        parts = []
        # Every tick, or every so many-th where they would run into one another.
        y_ticks, room = self.y_ticks or (), at.right - at.left
        for value, words in y_ticks[:: max(1, ceil(15 * len(y_ticks) / (at.bottom - at.top)))]:
            y = at.y(value)
            parts.append(f'<path class="grid" d="M{at.left:.0f} {y:.1f}H{at.right:.0f}"/>')
            parts.append(_text(at.left - 7, y + 4, words, at.left - 8, "end"))
        x_ticks = self.x_ticks
        if x_ticks is None:
            x_ticks = named(ticks(*self.x_range, most=max(4, int(at.right - at.left) // 90)))
        for value, words in x_ticks[:: max(1, ceil(sum(breadth(words) + 12 for _, words in x_ticks) / room))]:
            x = at.x(value)
            half = min(breadth(words), room / 2) / 2
            parts.append(f'<path class="axis" d="M{x:.1f} {at.bottom:.0f}v4"/>')
            inside = min(max(x, half + 2), at.right + RIGHT - half - 2)
            parts.append(_text(inside, at.bottom + 17, words, room / 2, "middle"))
        parts.append(f'<path class="axis" d="M{at.left:.0f} {at.bottom:.0f}H{at.right:.0f}"/>')
        width, middle = at.right + RIGHT, (at.left + at.right) / 2
        beside = breadth(self.x_label) / 2 > width - middle - 4
        x, anchor = (width - 4, "end") if beside else (middle, "middle")
        parts.append(_text(x, self.height - 8, self.x_label, width - 8, anchor, "label"))
        parts.append(_text(2, 13, self.y_label, width - 4, "start", "label"))
        return "".join(parts)


def stacked(pictures: Sequence[Picture]) -> str:
    """Return pictures below one another, each under its title and legend, as one SVG file that needs nothing else."""
    parts, y = [], 0.0
    for picture in pictures:
        title = escaped(shortened(picture.title, WIDE - 16))
        parts.append(f'<text class="strong" x="8" y="{y + 22:.0f}">{title}</text>')
        x, y = 8.0, y + 42
        for words, swatch in picture.legend:
            words = shortened(words, WIDE / 2)
            if x > 8 and x + breadth(words) + 24 > WIDE:
                x, y = 8.0, y + 18
            parts.append(f'<g transform="translate({x:.0f} {y - 10:.0f})">{swatch}</g>')
            parts.append(f'<text x="{x + 24:.0f}" y="{y:.0f}">{escaped(words)}</text>')
            x += breadth(words) + 44
        size = f'y="{y + 8:.0f}" width="{WIDE}" height="{picture.height}"'
        parts.append(picture.svg().replace("<svg ", f"<svg {size} ", 1))
        y += 8 + picture.height
    label = escaped(". ".join(picture.title for picture in pictures))
    size = f'width="{WIDE}" height="{y:.0f}" viewBox="0 0 {WIDE} {y:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}"><style>{style()}</style>'
        f'<rect class="paper" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )


def named(values: Iterable[float]) -> list[tuple[float, str]]:
    """Return numbers with their short names, of as many digits as tell them apart."""
    places = list(values)
    for digits in range(3, 12):
        names = [short(value, digits) for value in places]
        if len(set(names)) == len(set(places)):
            break
    return list(zip(places, names, strict=True)) if places else []


def _class(colour: int | str, line: bool = False) -> str:
    """Return the style-sheet class that fills with a colour or draws a line in it, dashed beyond seven series."""
    if isinstance(colour, str):
        return colour
    return f"{'s' if line else 'f'}{colour % N_COLOURS}" + (" dashed" if line and colour // N_COLOURS % 2 else "")


def ends(values: Any) -> Range:
    """Return the least and the largest value."""
    return float(values.min()), float(values.max())


def around(values: Iterable[float], margin: float = 0.08) -> Range:
    """Return a range that holds every finite value with some room beside it."""
    finite = [value for value in values if value == value and abs(value) != float("inf")] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    room = (high / 2 - low / 2) * 2 * margin or 0.05
    return max(low - room, -LARGEST), min(high + room, LARGEST)


def cut(n_drawn: int, of: int) -> str:
    """Say where not everything is shown."""
    return f"The first {n_drawn:,} of {of:,}." if n_drawn < of else ""


def _wide(limits: Range) -> Range:
    """Return limits that are apart: a value alone stands in the middle, with room that its size does not swallow."""
    low, high = limits
    if high / 2 - low / 2 > 1e-300:
        return limits
    room = max(0.5, abs(low) * 1e-3)
    return max(low - room, -LARGEST), min(low + room, LARGEST)


def _text(x: float, y: float, words: str, room: float, anchor: str, css: str = "") -> str:
    text = shortened(words, room)
    hint = f"<title>{escaped(words)}</title>" if text != words else ""
    css = f' class="{css}"' if css else ""
    return f'<text{css} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}{hint}</text>'


def _with_hint(tag: str, attributes: str, hint: str) -> str:
    return f"<{tag} {attributes}><title>{escaped(hint)}</title></{tag}>" if hint else f"<{tag} {attributes}/>"
