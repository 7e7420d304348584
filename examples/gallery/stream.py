"""A stream of rows

`partial_fit` adds what new rows say to what was learned before, and never looks back. The held-out
score comes close to that of a fit to all rows at once, which sees each row many times.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
centers = rng.normal(0, 5, (6, 3))
rows, held_out = (centers[rng.integers(6, size=n)] + rng.normal(size=(n, 3)) for n in (3000, 1000))

whole = sb.Mixture(6, n_init=3, random_state=0).fit(rows)
stream, scores = sb.Mixture(6, random_state=0), []
parts = np.array_split(rows, 30)
for part in parts:
    stream.partial_fit(part)
    scores.append(stream.score(held_out))

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(
    np.cumsum([len(part) for part in parts]),
    scores,
    "o-",
    markersize=4,
    color="#0072B2",
    label="partial_fit, each row seen once",
)
ax.axhline(
    whole.score(held_out), color="#D55E00", label=f"fit, each row seen {whole.n_iter_} times"
)
ax.set(xlabel="rows seen", ylabel="held-out score (nats per row)", title="a stream and a fit")
ax.legend()
figure.savefig("stream.png")
