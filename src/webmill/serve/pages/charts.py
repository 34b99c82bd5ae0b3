"""Charts drawn on the server: stretchable SVG shapes with HTML labels beside them.

Text inside a scaled image would be too small on a phone. A chart is one image to a screen reader; its numbers are in a
table below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from webmill.errors import BadInput
from webmill.formats.timestamps import earliest, to_datetime
from webmill.serve.pages.filters import format_count

WIDTH, HEIGHT = 1000.0, 100.0  # SVG units
FILL = 0.78  # of the space of a column
WIDEST = 60.0  # column width, if there are few
LONGEST = timedelta(days=366 * 150)  # time span shown; older dates are wrong


class ChartPoint(msgspec.Struct, frozen=True):
    label: str
    value: float


class ChartColumn(msgspec.Struct, frozen=True):
    x: float
    y: float
    width: float
    height: float
    label: str
    value: str


class ColumnChart(msgspec.Struct, frozen=True, kw_only=True):
    """Columns over time. `heights` are the labels of the y axis from the top down, `places` those of the x axis."""

    title: str
    summary: str
    columns: list[ChartColumn]
    heights: list[str]
    places: list[str]


class ChartBar(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    value: int
    share: float  # of all, 0 to 1
    length: float  # of the longest, in percent
    style: str = "series-1"
    link: str = ""


class LineChart(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    summary: str
    points: str
    area: str
    heights: list[str]
    places: list[str]


def column_chart(
    title: str, points: Sequence[ChartPoint], *, format_value: Callable[[float], str] = format_count
) -> ColumnChart:
    top = round_up_axis(max((point.value for point in points), default=0.0))
    step = WIDTH / max(1, len(points))
    width = min(WIDEST, step * FILL)
    made = [
        ChartColumn(
            x=round(place * step + (step - width) / 2, 2),
            y=round(HEIGHT - HEIGHT * point.value / top, 2),
            width=round(width, 2),
            height=round(HEIGHT * point.value / top, 2),
            label=point.label,
            value=format_value(point.value),
        )
        for place, point in enumerate(points)
    ]
    labels = [point.label for point in points]
    return ColumnChart(
        title=title,
        summary=_summary(points, format_value),
        columns=made,
        heights=[format_value(top), format_value(top / 2), "0"],
        places=labels if len(labels) < 3 else [labels[0], labels[len(labels) // 2], labels[-1]],
    )


def bar_chart(
    counts: Mapping[str, int],
    *,
    most: int,
    name: Callable[[str], str] = str,
    style: Callable[[str], str] = lambda _: "series-1",
    link: Callable[[str], str] = lambda _: "",
) -> list[ChartBar]:
    """Return bars of the most frequent values, and one for the rest."""
    total = sum(counts.values()) or 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown, rest = ranked[:most], sum(value for _, value in ranked[most:])
    longest = max([rest, *(value for _, value in shown)], default=1) or 1
    made = [
        ChartBar(
            label=name(key),
            value=value,
            share=value / total,
            length=round(100 * value / longest, 2),
            style=style(key),
            link=link(key),
        )
        for key, value in shown
    ]
    if rest:
        made.append(
            ChartBar(
                label="others", value=rest, share=rest / total, length=round(100 * rest / longest, 2), style="series-6"
            )
        )
    return made


def style_of_status(status: str) -> str:
    """Return the style of a status such as `200` or `2xx`."""
    return f"s{status[0]}-fill" if status[:1] in ("2", "3", "4", "5") else "series-6"


def line_chart(
    title: str, values: Sequence[tuple[float, float]], *, over: float, format_value: Callable[[float], str]
) -> LineChart:
    """Return a line of (seconds ago, value), oldest first, over a width of `over` seconds."""
    top = round_up_axis(max((value for _, value in values), default=0.0))
    places = [(WIDTH * (1 - age / over), HEIGHT - HEIGHT * value / top) for age, value in values]
    points = [f"{x:.1f},{y:.1f}" for x, y in places]
    return LineChart(
        title=title,
        summary=_summary(
            [ChartPoint(f"{age:.0f} seconds ago" if age else "now", value) for age, value in values], format_value
        ),
        points=" ".join(points),
        area=" ".join([f"{places[0][0]:.1f},{HEIGHT:.0f}", *points, f"{places[-1][0]:.1f},{HEIGHT:.0f}"]),
        heights=[format_value(top), format_value(top / 2), "0"],
        places=[f"{over:.0f} seconds ago", "now"],
    )


def round_up_axis(value: float) -> float:
    """Return the top of an axis: 1, 2 or 5 times a power of ten, at or above the value; never 0."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _summary(points: Sequence[ChartPoint], format_value: Callable[[float], str]) -> str:
    if not points:
        return "No data."
    most = max(points, key=lambda point: point.value)
    if len(points) == 1:
        return f"{most.label}: {format_value(most.value)}."
    return f"From {points[0].label} to {points[-1].label}; the maximum is {format_value(most.value)}, {most.label}."


# --- time ------------------------------------------------------------------------------------------------------------


def bucket_by_time(values: Mapping[str, float]) -> list[ChartPoint]:
    """Return points per minute, hour, day, month or year, so that their number is reasonable; empty ones included."""
    moments = sorted((moment, value) for key, value in values.items() if (moment := _moment(key)))
    if not moments:
        return []
    last = moments[-1][0]
    moments = [pair for pair in moments if last - pair[0] < LONGEST]
    first = moments[0][0]
    form = _time_format(last - first)
    found = dict.fromkeys(_labels(first, last, form), 0.0)
    for moment, value in moments:
        found[moment.strftime(form)] += value
    return [ChartPoint(label, value) for label, value in found.items()]


def _moment(key: str) -> datetime | None:
    """Return the time of a key, or None: archives also contain dates that do not exist."""
    try:
        return to_datetime(earliest(key))
    except BadInput:
        return None


def _time_format(span: timedelta) -> str:
    if span <= timedelta(hours=1):
        return "%Y-%m-%d %H:%M"
    if span <= timedelta(days=2):
        return "%Y-%m-%d %H:00"
    if span <= timedelta(days=62):
        return "%Y-%m-%d"
    return "%Y-%m" if span <= timedelta(days=3660) else "%Y"


_STEPS = (
    ("%M", timedelta(minutes=1)),
    ("%H", timedelta(hours=1)),
    ("%d", timedelta(days=1)),
    ("%Y", timedelta(days=28)),
)


def _labels(first: datetime, last: datetime, form: str) -> Iterable[str]:
    """Yield the labels in order. Steps are shorter than a unit, so labels may repeat."""
    step = next(length for sign, length in _STEPS if sign in form)
    moment = first
    while moment < last:
        yield moment.strftime(form)
        moment += step
    yield last.strftime(form)
