"""Counts: who visits on which day

Rows of counts, one for each customer and a column for each day, want a Poisson family: a component
is a rate for each day. Three habits went in, and a Dirichlet process mixture finds them, from one
component on. Below the components are the rows themselves, sorted by component.
"""

import numpy as np

import stickbreak as sb

rng = np.random.default_rng(1)
office = np.array([4, 5, 5, 5, 4, 0.3, 0.2])
weekend = np.array([0.4, 0.3, 0.3, 0.5, 1.5, 6, 5])
seldom = np.full(7, 0.8)
visits = np.concatenate(
    [rng.poisson(rate, (n, 7)) for rate, n in ((office, 180), (weekend, 90), (seldom, 130))]
)

model = sb.DPMixture(family="poisson", random_state=0).fit(visits)

figure = model.plot(X=visits)
figure.savefig("counts.png")
