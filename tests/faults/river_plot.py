"""Samples of a soak as an SVG picture: one small chart for each thing that was watched, over the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WIDTH, HEIGHT, LEFT, GAP = 860, 110, 60, 46
MEBIBYTE = 1024 * 1024
CHARTS = {  # title: key of a sample, unit
    "memory of the server, MiB": ("memory", MEBIBYTE),
    "memory of the running stage, MiB": ("stage", MEBIBYTE),
    "open files of the server": ("files", 1),
    "disk, MiB": ("disk", MEBIBYTE),
    "disk without archives, their index and documents, MiB": ("beside", MEBIBYTE),
    "search behind the live version, seconds": ("lag", 1),
}


# What was killed, as a line from top to bottom.
KILLS = {"stages killed": "#d0d7de", "server processes killed": "#f0b060", "servers killed": "#d1242f"}


def plot(samples: Sequence[dict[str, float]], kills: Sequence[tuple[float, str]] = ()) -> str:
    height = len(CHARTS) * (HEIGHT + GAP) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}">',
        "<style>text { font: 12px sans-serif; fill: #333 }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        *legend(),
    ]
    end = max((sample["at"] for sample in samples), default=0.0) or 1.0
    for at, what in kills:
        if at <= end:
            x = LEFT + at / end * WIDTH
            parts.append(f'<path d="M{x:.1f} 40V{height - 30}" stroke="{KILLS[what]}"/>')
    for number, (title, (key, unit)) in enumerate(CHARTS.items()):
        points = [(sample["at"], sample[key] / unit) for sample in samples]
        parts.append(chart(points, title, top=number * (HEIGHT + GAP) + 60))
    return "\n".join([*parts, "</svg>\n"])


def legend() -> Iterator[str]:
    for number, (what, color) in enumerate(KILLS.items()):
        x = LEFT + number * 200
        yield f'<path d="M{x} 16h20" stroke="{color}" stroke-width="3"/><text x="{x + 26}" y="20">{what}</text>'


def chart(points: Sequence[tuple[float, float]], title: str, *, top: int) -> str:
    end = max((at for at, _ in points), default=0.0) or 1.0
    most = max((value for _, value in points), default=0.0) or 1.0
    line = " ".join(f"{LEFT + at / end * WIDTH:.1f},{top + HEIGHT * (1 - value / most):.1f}" for at, value in points)
    return "\n".join(
        [
            f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>',
            f'<path d="M{LEFT} {top}V{top + HEIGHT}H{LEFT + WIDTH}" fill="none" stroke="#999"/>',
            f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{most:.4g}</text>',
            f'<text x="{LEFT - 6}" y="{top + HEIGHT}" text-anchor="end">0</text>',
            f'<text x="{LEFT + WIDTH}" y="{top + HEIGHT + 14}" text-anchor="end">{end:.0f} s</text>',
            f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="1.5"/>',
        ]
    )
