"""Trees of sentences: heads and constituents from words alone

Sentences of a small grammar, of which only the words are seen. The dependency model finds the head
of each word, and a context-free grammar finds constituents with hidden categories, which are
numbered. Nobody has told either of them what a noun or a verb is.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
small, plain = ("the", "a", "every"), ("old", "young", "happy")
nouns, verbs = ("cat", "dog", "girl", "king", "poet"), ("sees", "calls", "follows", "greets")


def phrase() -> list[str]:
    """A determiner, perhaps an adjective, and a noun."""
    kinds = (small, plain, nouns) if rng.random() < 0.4 else (small, nouns)
    return [str(rng.choice(kind)) for kind in kinds]


def sentence() -> list[str]:
    """A subject, a verb, and perhaps an object."""
    words = [*phrase(), str(rng.choice(verbs))]
    return [*words, *phrase()] if rng.random() < 0.7 else words


sentences = [sentence() for _ in range(300)]
heads = sb.DMV(random_state=0).fit(sentences)
trees = sb.HDPPCFG(8, random_state=0).fit(sentences)

example = "the young girl sees every cat"
figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), height_ratios=(1, 1.5))
heads.plot("dependencies", example, ax=above)
trees.plot("tree", example, ax=below)
figure.tight_layout()
figure.savefig("sentence_trees.png")
