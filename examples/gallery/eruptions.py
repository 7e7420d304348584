"""Two kinds of eruptions

A geyser's eruptions are short or long, and the wait for the next one goes with it. The rows here are drawn to resemble the
well-known table of Old Faithful. Of Dirichlet process mixtures that may use 1, 2, 4 or 8 components, those that use two have the
highest bound.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
short = rng.multivariate_normal((2.0, 54.5), [[0.07, 0.45], [0.45, 34.0]], 97)
long = rng.multivariate_normal((4.3, 80.0), [[0.17, 0.95], [0.95, 36.0]], 175)
rows = np.concatenate([short, long])

models = [sb.DPMixture(k, n_init=5, random_state=0).fit(rows) for k in (1, 2, 4, 8)]
best = max(models, key=lambda model: model.lower_bound_)
print(sb.compare(models))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", width_ratios=(2, 3))
best.plot("weights", ax=left)
best.plot("components", rows, ax=right)
right.set(xlabel="eruption (minutes)", ylabel="wait for the next one (minutes)")
figure.savefig("eruptions.png")
