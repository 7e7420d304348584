"""Documents: the bars test

Words are the 25 cells of a square, and each document is about one bar: a row or a column of the
square, with some words from elsewhere. At the top are five documents, below the components that a
multinomial mixture finds, largest first. All ten bars are there.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
square = np.arange(25).reshape(5, 5)
bars = np.full((10, 25), 0.2 / 25)
for topic, words in enumerate([*square, *square.T]):
    bars[topic, words] += 0.8 / 5
documents = rng.multinomial(40, bars[rng.integers(10, size=500)])

model = sb.DPMixture(family="multinomial", random_state=0).fit(documents)

figure, axes = plt.subplots(3, 5, figsize=(7, 4.6), layout="constrained")
found = model.posterior_["probability"][np.argsort(-model.weights_)[:10]]
for i, (ax, image) in enumerate(zip(axes.flat, [*documents[:5], *found])):
    ax.imshow(image.reshape(5, 5), cmap="cividis")
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"document {i}" if i < 5 else f"component {i - 5}", fontsize=9)
figure.savefig("documents.png")
