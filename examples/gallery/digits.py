"""Handwritten digits, in black and white

Each image is a row of 64 pixels, on or off; a component is a probability for each pixel, so it can
be looked at as an image. Twenty components find most digits, and several ways of writing some of
them. The largest come first.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import stickbreak as sb

images = load_digits().data > 7

model = sb.Mixture(20, family="bernoulli", random_state=0).fit(images)

figure, axes = plt.subplots(2, 10, figsize=(11, 2.9), layout="constrained")
for ax, k in zip(axes.flat, np.argsort(-model.weights_)):
    ax.imshow(model.posterior_["probability"][k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set(title=f"{100 * model.weights_[k]:.0f} %", xticks=[], yticks=[])
figure.savefig("digits.png")
