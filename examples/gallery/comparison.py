"""Which model? Compare them

`sb.compare` puts fitted models into one table: bounds, held-out scores, sizes and times. Here the
widths of clusters differ between columns and the columns are correlated inside clusters, so the
full covariance wins by the bound and on new rows alike.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
shape = np.array([[1.0, 0.0], [1.5, 0.4]])
centers = np.array([[0, 0], [4, 0], [8, 0]])
rows, held_out = (
    centers[rng.integers(3, size=400)] + rng.normal(size=(400, 2)) @ shape.T for _ in range(2)
)

families = ("gaussian", "diagonal", "fixed-variance")
models = [sb.Mixture(3, family=name, n_init=5, random_state=0).fit(rows) for name in families]
table = sb.compare(models, held_out, names=families)
print(table)

figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
axes[0].plot([line.score for line in table], families, "o", markersize=10, color="#0072B2")
axes[0].set(xlabel="held-out score (nats per row)", title="more to the right is better")
axes[0].margins(0.2)
axes[0].invert_yaxis()
for ax, model, name in zip(axes[1:], models, families):
    model.plot("components", held_out, ax=ax)
    ax.set_xlabel(name)
figure.savefig("comparison.png")
