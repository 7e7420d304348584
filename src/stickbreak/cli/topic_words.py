"""Topics in words and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .output import format_table

__all__ = ["topic_lines", "topics"]


def topics(model: Any, n_words: int) -> list[dict[str, Any]]:
    """Topics that have words, the largest first, with n_words most probable words each.

    Each word comes with its probability.
    """
    order = np.argsort(-model.weights_, kind="stable")
    order = order[model.counts_[order] >= 1.0]
    probability = np.sort(model.topic_word_, axis=1)[:, ::-1]
    return [
        {
            "topic": int(k),
            "weight": float(model.weights_[k]),
            "words": float(model.counts_[k]),
            "top_words": list(words),
            "probabilities": probability[k, :n_words],
        }
        for k, words in zip(order, model.top_words(n_words), strict=True)
    ]


def topic_lines(model: Any, n_words: int, most: int) -> list[str]:
    """A table of the largest topics, at most `most`."""
    found = topics(model, n_words)
    rows = [
        [str(topic["topic"]), f"{topic['words']:.1f}", f"{topic['weight']:.4f}"]
        for topic in found[:most]
    ]
    shown = ["top words", *(" ".join(map(str, topic["top_words"])) for topic in found[:most])]
    lines = [
        f"{type(model).__name__} of {len(found)} topics with words ({model.n_components_} in all); "
        f"{model.n_features_in_:,} words in the vocabulary",
        *(
            f"{line}  {words}"
            for line, words in zip(
                format_table(["topic", "words", "weight"], rows), shown, strict=True
            )
        ),
    ]
    return lines + [f"{len(found) - most} more topics: see --json"] * (len(found) > most)
