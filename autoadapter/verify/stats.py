"""Small statistics in plain Python: no array library in the base install."""

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN of nothing, which no threshold accepts."""
    return math.fsum(values) / len(values) if values else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean from the sample variance (n - 1); NaN below two values."""
    if len(values) < 2:
        return math.nan
    middle = mean(values)
    variance = math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between closest ranks, as numpy's default; NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def histogram(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    """Counts between neighbouring edges; what lies outside falls into the first or the last bin."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        index = sum(value >= edge for edge in edges[1:-1])
        counts[index] += 1
    return counts


def log_edges(low: float, high: float, bins: int) -> list[float]:
    """`bins + 1` edges from `low` to `high`, equally spaced in the logarithm."""
    step = (math.log(high) - math.log(low)) / bins
    return [math.exp(math.log(low) + step * index) for index in range(bins + 1)]
