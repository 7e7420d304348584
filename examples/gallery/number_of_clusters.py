"""How many clusters? Ask the bound

The likelihood of the rows that were fitted rises with every component more. The bound does not: it
is a bound on the evidence, in which every component has to pay for its parameters, and it is
highest at the four clusters that went in. Rows that were held out gain next to nothing from more
than four.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(3)
centers = np.array([[0, 0], [5, 1], [1, 5], [6, 6]])
rows, held_out = (centers[rng.integers(4, size=300)] + rng.normal(size=(300, 2)) for _ in range(2))

sizes = range(1, 9)
models = [sb.Mixture(k, n_init=3, random_state=0).fit(rows) for k in sizes]

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
values = {
    "bound per row": [m.lower_bound_ / len(rows) for m in models],
    "held-out score": [m.score(held_out) for m in models],
}
for ax, (title, found) in zip(axes, values.items()):
    ax.plot(sizes, found, "o-", color="#0072B2")
    ax.set(title=title, xlabel="components", ylabel="nats per row", xticks=sizes)
best = max(models, key=lambda model: model.lower_bound_)
axes[0].plot(best.n_components_, best.lower_bound_ / len(rows), "o", color="#D55E00", markersize=10)
best.plot("components", held_out, ax=axes[2])
figure.savefig("number_of_clusters.png")
