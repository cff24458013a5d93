"""Small pictures as SVG text: axes with units, and marks whose colours the page decides (light, dark, paper)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 74, 26, 14, 46
N_COLOURS = 7

MOST_BARS = 60

Range = tuple[float, float]
Points = Iterable[tuple[float, float]]


def short(value: float) -> str:
    """Return a number as a short text: thousands with commas, small numbers with the digits that matter."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Return round numbers from ``low`` to ``high``: steps of 1, 2 or 5 times a power of ten."""
    span = high - low or 1.0
    power = 10.0 ** floor(log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= most)
    step = max(1.0, round(step)) if whole else step
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


class Picture:
    """Axes with a name and a unit each, and what is drawn on them in units of the data.

    ``colour`` is a number (a series), or the name of a class of the page's style sheet.
    """

    def __init__(
        self,
        title: str,
        x: str,
        y: str,
        x_range: Range,
        y_range: Range,
        height: int = 240,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        y_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        self.title, self.x_label, self.y_label, self.height = title, x, y, height
        self.x_range, self.y_range = _wide(x_range), _wide(y_range)
        self.x_ticks = [(t, short(t)) for t in ticks(*self.x_range)] if x_ticks is None else list(x_ticks)
        self.y_ticks = [(t, short(t)) for t in ticks(*self.y_range)] if y_ticks is None else list(y_ticks)
        self.marks: list[str] = []
        self.legend: list[tuple[str, str]] = []

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis lies, in pixels."""
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis lies, in pixels."""
        low, high = self.y_range
        return self.height - BOTTOM - (value - low) / (high - low) * (self.height - BOTTOM - TOP)

    def bar(self, x0: float, x1: float, y0: float, y1: float, colour: int | str, said: str = "") -> None:
        """Draw a rectangle; ``said`` appears under the pointer."""
        left, top = min(self.x(x0), self.x(x1)), min(self.y(y0), self.y(y1))
        wide, high = abs(self.x(x1) - self.x(x0)), abs(self.y(y1) - self.y(y0))
        inside = f"><title>{escape(said)}</title></rect>" if said else "/>"
        box = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}"'
        self.marks.append(f'<rect class="{fill_class(colour)}" {box}{inside}')

    def cells(self, cells: Iterable[tuple[float, float, float, float]], colour: int | str) -> None:
        """Draw many rectangles (x0, x1, y0, y1) of one colour as one path."""
        boxes = [(self.x(a), self.x(b), self.y(d), self.y(c)) for a, b, c, d in cells]
        path = "".join(f"M{a:.1f} {top:.1f}H{b:.1f}V{low:.1f}H{a:.1f}z" for a, b, top, low in boxes)
        if path:
            self.marks.append(f'<path class="{fill_class(colour)}" d="{path}"/>')

    def line(self, points: Points, colour: int | str) -> None:
        """Draw straight lines from point to point."""
        path = "L".join(f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in points)
        self.marks.append(f'<path class="{stroke_class(colour)}" d="M{path}"/>')

    def area(self, low: Points, high: Points, colour: str) -> None:
        """Fill what lies between two lines."""
        path = "L".join(f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in [*low, *reversed([*high])])
        self.marks.append(f'<path class="{fill_class(colour)}" d="M{path}z"/>')

    def dots(self, points: Iterable[tuple[float, float, str]], colour: int | str, radius: float = 3.5) -> None:
        """Draw a dot at each (x, y, what it is)."""
        for a, b, said in points:
            inside = f"><title>{escape(said)}</title></circle>" if said else "/>"
            at = f'cx="{self.x(a):.1f}" cy="{self.y(b):.1f}" r="{radius:.1f}"'
            self.marks.append(f'<circle class="{fill_class(colour)}" {at}{inside}')

    def text(self, x: float, y: float, said: str, anchor: str = "middle") -> None:
        """Write a word at a place in units of the data."""
        self.marks.append(
            f'<text x="{self.x(x):.1f}" y="{self.y(y) + 4:.1f}" text-anchor="{anchor}">{escape(said)}</text>'
        )

    def name(self, said: str, colour: int | str, mark: str = "fill") -> None:
        """Add an entry to the legend: a filled box, or ``mark="line"``."""
        shape = "rect" if mark == "fill" else "line"
        self.legend.append((said, _swatch(shape, fill_class(colour) if mark == "fill" else stroke_class(colour))))

    def svg(self) -> str:
        """Return the picture alone; its colours come from the page's style sheet."""
        said = escape(self.title, quote=True)
        head = f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{said}">'
        return f"{head}{self._axes()}{''.join(self.marks)}</svg>"

    def figure(self, caption: str = "") -> str:
        """Return the picture as an HTML figure with its legend and caption."""
        legend = "".join(f"<span>{swatch}{escape(said)}</span>" for said, swatch in self.legend)
        told = f'<p class="legend">{legend}</p>' if legend else ""
        under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return f"<figure><h3>{escape(self.title)}</h3>{told}{self.svg()}{under}</figure>"

    def _axes(self) -> str:
        bottom, right = self.height - BOTTOM, WIDTH - RIGHT
        parts = []
        for value, said in self.y_ticks:
            at = self.y(value)
            parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
            parts.append(f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{escape(said)}</text>')
        for value, said in self.x_ticks:
            at = self.x(value)
            parts.append(f'<path class="axis" d="M{at:.1f} {bottom}v4"/>')
            parts.append(f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(said)}</text>')
        middle, up = (LEFT + right) / 2, (TOP + bottom) / 2
        parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
        at_bottom = f'x="{middle:.0f}" y="{self.height - 8}"'
        parts.append(f'<text class="label" {at_bottom} text-anchor="middle">{escape(self.x_label)}</text>')
        turn = f'transform="translate(15 {up:.0f}) rotate(-90)"'
        parts.append(f'<text class="label" {turn} text-anchor="middle">{escape(self.y_label)}</text>')
        return "".join(parts)


def fill_class(colour: int | str) -> str:
    """Return the style-sheet class that fills with a colour."""
    return f"f{colour % N_COLOURS}" if isinstance(colour, int) else colour


def stroke_class(colour: int | str) -> str:
    """Return the class that draws a line in a colour; beyond seven series the lines are dashed."""
    if isinstance(colour, str):
        return colour
    return f"s{colour % N_COLOURS}" + (" dashed" if colour // N_COLOURS % 2 else "")


def _wide(given: Range) -> Range:
    return given if given[1] > given[0] else (given[0] - 0.5, given[0] + 0.5)


def _swatch(shape: str, css: str) -> str:
    drawn = (
        f'<path class="{css}" d="M0 6H18"/>'
        if shape == "line"
        else f'<rect class="{css}" y="1" width="17" height="10"/>'
    )
    return f'<svg class="swatch" viewBox="0 0 18 12" aria-hidden="true">{drawn}</svg>'


def ends(values: Any) -> Range:
    """Return the least and the largest value."""
    return float(values.min()), float(values.max())


def some(named: list[tuple[float, str]] | list[tuple[int, str]], most: int = 24) -> list[tuple[float, str]]:
    """Return the named ticks, or some of them where they would run into one another."""
    if len(named) <= most:
        return [(float(at), name) for at, name in named]
    return [(float(named[int(i)][0]), named[int(i)][1]) for i in ticks(0, len(named) - 1, 12, whole=True)]


def cut(shown: int, of: int) -> str:
    """Say where not everything is shown."""
    return f"The first {shown:,} of {of:,}." if shown < of else ""
