"""Series of measured times, and the plain tables in which each stands beside its floors; it measures nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Series:
    """What was measured under one name, in seconds."""

    name: str
    seconds: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """The nearest-rank percentile."""
        ordered = sorted(self.seconds)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def show(title: str, rows: Sequence[Series], floors: Iterable[str] = ()) -> None:
    """Print one line a series, and how many times the p50 of each floor its p50 is."""
    by_name = {row.name: row for row in rows}
    floors = [name for name in floors if by_name[name].seconds]
    width = max(len(title), *(len(row.name) for row in rows))
    marks = [f"/{letter}" for letter in "ABCD"[: len(floors)]]
    print(f"\n{title:<{width}}  {'n':>6}  {'p50':>9}  {'p99':>9}" + "".join(f"  {mark:>7}" for mark in marks))
    for row in rows:
        if not row.seconds:
            print(f"{row.name:<{width}}  {0:>6}  {'-':>9}  {'-':>9}")
            continue
        ratios = "".join(f"  {_ratio(row.at(0.5), by_name[name].at(0.5)):>7}" for name in floors)
        print(
            f"{row.name:<{width}}  {len(row.seconds):>6}  {duration(row.at(0.5)):>9}  {duration(row.at(0.99)):>9}{ratios}"
        )
    for mark, name in zip(marks, floors, strict=True):
        print(f"  {mark}: times the p50 of {name!r}")


def facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values that are no times."""
    width = max(len(title), *(len(name) for name, _ in rows))
    print(f"\n{title}")
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def duration(seconds: float) -> str:
    """Three figures, with the unit that fits."""
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if abs(seconds) < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"


def _ratio(value: float, floor: float) -> str:
    return f"{value / floor:.2f}" if floor > 0 else "-"
