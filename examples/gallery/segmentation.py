"""States over time

A hidden Markov model of movements in the plane: each state is an autoregression, a way of turning.
The strips show where it thinks that each one begins and ends.
"""

import numpy as np

import stickbreak as sb

rng = np.random.default_rng(1)
turns = {
    angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for angle in (0.1, 0.8, 1.6, 2.6)
}


def walk(length: int) -> np.ndarray:
    """Points that turn by one angle for a while, and then by another."""
    points, angle = [rng.normal(size=2)], 0.1
    for _ in range(length - 1):
        if rng.random() < 0.02:
            angle = rng.choice(tuple(turns))
        points.append(0.98 * turns[angle] @ points[-1] + 0.15 * rng.normal(size=2))
    return np.array(points)


sequences = [walk(length) for length in (400, 300, 350, 400, 250, 380)]
family = sb.AutoregressiveGaussian(order=1)
model = sb.HMM(4, family=family, n_init=5, random_state=0).fit(sequences)
figure = model.plot(X=sequences)
figure.savefig("segmentation.png")
print(
    f"expected stays: {model.durations_.round()} rows; held-out score "
    f"{model.score([walk(400)]):.2f} nats per row"
)
