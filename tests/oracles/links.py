"""Symmetrization on sets, one pair at a time, as its definition reads."""

from __future__ import annotations

AROUND = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def symmetrized(forward: set, reverse: set, rule: str) -> set:
    """Links (i, j) of one pair by one rule."""
    if rule == "union":
        return forward | reverse
    chosen = forward & reverse
    if rule == "intersection":
        return chosen
    has_new = True
    while has_new:
        has_new = False
        for i, j in sorted(chosen):
            for di, dj in AROUND:
                link = (i + di, j + dj)
                if link in (forward | reverse) - chosen and is_open(link, chosen, any):
                    chosen = chosen | {link}
                    has_new = True
    if rule != "grow-diag":
        for side in (forward, reverse):
            for link in sorted(side):
                if is_open(link, chosen, any if rule == "grow-diag-final" else all):
                    chosen = chosen | {link}
    return chosen


def is_open(link: tuple, chosen: set, quantifier) -> bool:
    """Whether any or all of the two words of a link have no chosen link."""
    return quantifier(all(other[side] != link[side] for other in chosen) for side in (0, 1))
