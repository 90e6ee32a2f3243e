"""A chart as inline SVG, coloured by the page's own style, light or dark."""

from __future__ import annotations

import math
import textwrap
from html import escape

from twofold.eval.charts import Chart

_WIDTH, _HEIGHT = 860, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 190, 14, 46
_COLOURS = 8
_LETTERS = 24
"""How much of a name fits into a line of the legend."""
_LINE, _APART = 15, 7


def draw(chart: Chart) -> str:
    """The chart, with the exact value of each point as its tooltip."""
    scale = _Scale(chart)
    parts = [*_grid(scale), *_ticks(chart, scale)]
    for number, (name, values) in enumerate(chart.series.items()):
        parts += _series(chart, scale, name, values, number % _COLOURS)
    parts += _legend(chart)
    caption = escape(f"{chart.y or 'Metrics'} over {chart.x or 'the runs'}")
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{caption}">{"".join(parts)}</svg>'


class _Scale:
    """From values to places on the page."""

    def __init__(self, chart: Chart) -> None:
        every = [v for values in chart.series.values() for v in values if math.isfinite(v)] or [0.0, 1.0]
        low, high = min(every), max(every)
        margin = max((high - low) * 0.12, 0.01)
        self.step = _round_step((high - low + 2 * margin) / 5)
        self.low = max(0.0, math.floor((low - margin) / self.step) * self.step)
        top = math.ceil((high + margin) / self.step) * self.step
        self.high = min(1.0, top) if high <= 1 else top  # shares end at 1, counts don't
        self._first, self._last = min(chart.places), max(chart.places)
        self._inset = 10 if chart.joined else (_WIDTH - _LEFT - _RIGHT) / (2 * len(chart.places))

    def x(self, place: float) -> float:
        span = _WIDTH - _LEFT - _RIGHT - 2 * self._inset
        share = (place - self._first) / (self._last - self._first) if self._last > self._first else 0.5
        return _LEFT + self._inset + share * span

    def y(self, value: float) -> float:
        return _TOP + (self.high - value) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)

    def lines(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + i * self.step for i in range(count + 1)]


def _round_step(rough: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(rough))
    return next(float(factor * power) for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _grid(scale: _Scale) -> list[str]:
    digits = 2 if scale.step >= 0.01 else 3
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{scale.y(v):.1f}" y2="{scale.y(v):.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{scale.y(v) + 4:.1f}" text-anchor="end">{v:.{digits}f}</text>'
        for v in scale.lines()
    ]


def _ticks(chart: Chart, scale: _Scale) -> list[str]:
    bottom = _HEIGHT - _BOTTOM + 18
    every = math.ceil(len(chart.names) / 14)
    shown = list(zip(chart.places, chart.names, strict=True))[::every]
    size = max(6, 84 // max(1, len(shown)))
    ticks = [
        f'<text x="{scale.x(place):.1f}" y="{bottom}" text-anchor="middle">{escape(_short(name, size))}</text>'
        for place, name in shown
    ]
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    return [*ticks, f'<text class="axis" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(chart.x)}</text>']


def _short(name: str, size: int) -> str:
    return name if len(name) <= size else f"{name[: size - 1]}…"


def _series(chart: Chart, scale: _Scale, name: str, values: tuple[float, ...], colour: int) -> list[str]:
    shown = [(p, n, v) for p, n, v in zip(chart.places, chart.names, values, strict=True) if math.isfinite(v)]
    path = " ".join(f"{scale.x(place):.1f},{scale.y(value):.1f}" for place, _, value in shown)
    line = [f'<polyline class="line c{colour}" points="{path}"/>'] if chart.joined else []
    return line + [
        f'<circle class="c{colour}" cx="{scale.x(place):.1f}" cy="{scale.y(value):.1f}" r="4">'
        f"<title>{escape(name)}, {escape(chart.x)} {escape(written)}: {value:.4f}</title></circle>"
        for place, written, value in shown
    ]


def _legend(chart: Chart) -> list[str]:
    """The names of the lines, whole: one that is cut doesn't say what its line is. What has no room is counted."""
    left, y = _WIDTH - _RIGHT + 18, _TOP + 16
    parts: list[str] = []
    for number, name in enumerate(chart.series):
        lines = textwrap.wrap(name, _LETTERS) or [""]
        if y + (len(lines) - 1) * _LINE > _HEIGHT - _LINE and number:
            return [*parts, f'<text x="{left}" y="{y}">and {len(chart.series) - number} more</text>']
        parts.append(f'<circle class="c{number % _COLOURS}" cx="{left}" cy="{y - 4}" r="5"/>')
        spans = "".join(
            f'<tspan x="{left + 12}" y="{y + i * _LINE}">{escape(line)}</tspan>' for i, line in enumerate(lines)
        )
        parts.append(f'<text class="name">{spans}</text>')
        y += len(lines) * _LINE + _APART
    return parts
