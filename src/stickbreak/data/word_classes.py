"""Classes of rare and unknown words, by their shape."""

from __future__ import annotations

__all__ = ["UNKNOWN", "coarser", "word_class"]

UNKNOWN = "<unk>"
SUFFIXES = ("ing", "ion", "est", "ity", "ed", "er", "ly", "al", "s", "y")
LEAST_STEM = 3  # letters before a suffix


def word_class(word: str, is_first: bool = False) -> str:
    """The class of a word: `<unk>`, then what its shape says, each after a hyphen.

    num : a digit; else cap, caps or first : it begins with a capital letter, has no small one, or
    begins with a capital letter as the first word of a sentence; dash : a hyphen inside; else the
    first of ing, ion, est, ity, ed, er, ly, al, s, y that it ends with, after three letters.

    Examples
    --------
    >>> word_class("unlisted"), word_class("1,200"), word_class("Corp.")
    ('<unk>-ed', '<unk>-num', '<unk>-cap')
    """
    parts = [UNKNOWN]
    if any(letter.isdigit() for letter in word):
        parts.append("num")
    elif word[:1].isupper():
        is_loud = len(word) > 1 and not any(letter.islower() for letter in word)
        parts.append("caps" if is_loud else "first" if is_first else "cap")
    if "-" in word[1:-1]:
        parts.append("dash")
    elif "num" not in parts:
        low = word.lower()
        ends = (s for s in SUFFIXES if low.endswith(s) and len(low) >= len(s) + LEAST_STEM)
        parts += [end for end in ends if not (end == "s" and low.endswith("ss"))][:1]
    return "-".join(parts)


def coarser(name: str) -> str:
    """The class without the last thing that it says of a shape; `<unk>` stays."""
    return name.rpartition("-")[0] or UNKNOWN
