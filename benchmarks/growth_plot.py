"""Small charts side by side, as SVG: cost of one thing (line) and memory (dashes) over the size of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

WIDTH, HEIGHT, LEFT, TOP = 330, 100, 50, 40
CELL = WIDTH + 2 * LEFT + 10, HEIGHT + TOP + 40
COLUMNS = 2


@dataclass(frozen=True)
class Point:
    size: int
    cost: float  # µs of CPU for one
    memory: float  # MiB


def plot(charts: Mapping[str, Sequence[Point]]) -> str:
    rows = -(-len(charts) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * CELL[0]} {rows * CELL[1]}">',
        "<style>text { font: 11px sans-serif; fill: #333 } .memory { fill: #8a5a00 }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (title, points) in enumerate(charts.items()):
        across, down = number % COLUMNS * CELL[0] + LEFT, number // COLUMNS * CELL[1] + TOP
        parts += [f'<g transform="translate({across} {down})">', *chart(title, points), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def chart(title: str, points: Sequence[Point]) -> list[str]:
    costs, memories = [point.cost for point in points], [point.memory for point in points]
    places = across([point.size for point in points])
    sizes = [
        f'<text x="{place:.1f}" y="{HEIGHT + 14}" text-anchor="middle">{point.size:,}</text>'
        for place, point in zip(places, points, strict=True)
    ]
    return [
        f'<text x="0" y="-14" font-weight="bold">{escape(title)}</text>',
        f'<path d="M0 0V{HEIGHT}H{WIDTH}V0" fill="none" stroke="#999"/>',
        f'<text x="-6" y="10" text-anchor="end">{max(costs):,.4g}</text>',
        f'<text x="-6" y="{HEIGHT}" text-anchor="end">0</text>',
        f'<text class="memory" x="{WIDTH + 6}" y="10">{max(memories):,.0f} MiB</text>',
        *sizes,
        line(places, memories, 'stroke="#d08700" stroke-dasharray="4 3"'),
        line(places, costs, 'stroke="#1f6feb" stroke-width="2"'),
    ]


def across(sizes: Sequence[int]) -> list[float]:
    """Sizes grow by factors: their logarithms are spread evenly."""
    first, last = log10(sizes[0]), log10(sizes[-1])
    return [20 + (log10(size) - first) / ((last - first) or 1) * (WIDTH - 40) for size in sizes]


def line(places: Sequence[float], values: Sequence[float], how: str) -> str:
    most = max(values) or 1
    points = " ".join(
        f"{place:.1f},{HEIGHT * (1 - 0.95 * value / most):.1f}" for place, value in zip(places, values, strict=True)
    )
    return f'<polyline points="{points}" fill="none" {how}/>'
