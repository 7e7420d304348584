"""Two kinds of eruptions

A geyser's eruptions are short or long, and the wait for the next one goes with it. The rows here
are drawn to resemble the well-known table of Old Faithful. A Dirichlet process mixture begins with
one component and finds two. A finite mixture of four leaves two of its components empty, and has
the same bound within a nat.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
short = rng.multivariate_normal((2.0, 54.5), [[0.07, 0.45], [0.45, 34.0]], 97)
long = rng.multivariate_normal((4.3, 80.0), [[0.17, 0.95], [0.95, 36.0]], 175)
rows = np.concatenate([short, long])

best = sb.DPMixture(random_state=0).fit(rows)
print(best.explain_moves())
print(sb.compare([best, *(sb.Mixture(k, n_init=5, random_state=0).fit(rows) for k in (1, 4))]))

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.5), layout="constrained", width_ratios=(2, 3)
)
best.plot("weights", ax=left)
best.plot("components", rows, ax=right)
right.set(xlabel="eruption (minutes)", ylabel="wait for the next one (minutes)")
figure.savefig("eruptions.png")
