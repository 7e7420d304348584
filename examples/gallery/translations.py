"""Word alignment: which word translates which

Sentences of a made-up bitext, in which the German verb stands at the end. The HMM aligner learns
translations and jumps from 400 pairs without any dictionary. Above, colors are posteriors of links,
frames the links of both directions, joined; below, arcs are the same links.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb
from stickbreak.cli.example import make_pairs

made = make_pairs(400, np.random.default_rng(0))
pairs = [(english, german) for english, german, _ in made]

model = sb.HMMAligner(random_state=0).fit(pairs)

pair = (
    "they have forgotten the small book today",
    "sie haben das kleine Buch heute vergessen",
)
figure, (grid, arcs) = plt.subplots(
    2, 1, figsize=(6.4, 7.4), height_ratios=(5, 3), layout="constrained"
)
model.plot("alignment", pair, ax=grid)
model.plot("arcs", pair, ax=arcs)
figure.savefig("translations.png")
