"""Spare components cost nothing

Without moves, the number of components of a Dirichlet process mixture is a truncation: the most
that it may use. The bound rises until there are enough, and then stays: components without rows
cost nothing. The clusters are well apart, and each fit is the best of five starts; with one start,
or clusters that overlap, a large truncation often ends in a worse optimum with too many pieces,
which is what births, merges and deletes are for.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
clusters = [((-4, 0), 0.8, 300), ((3, 3), 0.5, 200), ((3, -3), 1.2, 400)]
rows = np.concatenate([rng.normal(center, width, (size, 2)) for center, width, size in clusters])

truncations = (1, 2, 3, 4, 6, 10)
models = [
    sb.DPMixture(k, inference="memoized", n_init=5, random_state=0).fit(rows) for k in truncations
]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
models[-1].plot("components", rows, ax=left)
right.plot(truncations, [model.lower_bound_ for model in models], "o-", color="#0072B2")
for k, model in zip(truncations, models):
    right.annotate(
        str(model.n_effective_),
        (k, model.lower_bound_),
        textcoords="offset points",
        xytext=(8, -14),
        ha="center",
    )
right.set(
    title="bound, and components in use",
    xlabel="truncation",
    ylabel="bound (nats)",
    ylim=(-4800, -3150),
)
right.set_xticks(truncations)
figure.savefig("truncation.png")
