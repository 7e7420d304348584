"""How long states last

A semi-Markov model gives each state a law of durations. These states last about 10, 25 and 40 rows,
give or take a few; a hidden Markov model can only say that stays are geometric, and needs more
evidence to see that one has ended.
"""

import numpy as np

import stickbreak as sb

rng = np.random.default_rng(0)


def walk(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of overlapping states, each of which lasts for a regular time, and the states."""
    states, k = np.empty(0, dtype=int), 0
    while len(states) < length:
        states = np.r_[states, np.full(1 + rng.poisson((9, 24, 39)[k]), k)]
        k = (k + rng.integers(1, 3)) % 3
    states = states[:length]
    centers = np.array([[-1.5, 0.0], [0.0, 1.5], [1.5, 0.0]])
    return centers[states] + rng.normal(size=(length, 2)), states


sequences = [walk(300)[0] for _ in range(12)]
new, truth = walk(2000)
model = sb.HSMM(3, duration="poisson", max_duration=120, n_init=3, random_state=0).fit(sequences)
chain = sb.HMM(3, n_init=3, random_state=0).fit(sequences)
figure = model.plot()
figure.savefig("durations.png")
for name, fitted in (("durations", model), ("hidden Markov", chain)):
    right = sb.metrics.one_to_one(truth, fitted.predict(new))
    print(f"{name}: {100 * right:.0f} % of new rows right, score {fitted.score(new):.3f}")
