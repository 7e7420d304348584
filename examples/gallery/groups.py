"""Rows in groups: what each shop sells

Sales of thirty shops, by price and hour. All shops have the same four kinds of customers, and each
has its own mix of them. The components are found from all rows; the columns of the upper picture
say what each shop has of them. With its mix a shop's next sales are predicted better than without.
"""

import numpy as np
from matplotlib import pyplot as plt

import stickbreak as sb

rng = np.random.default_rng(0)
kinds = np.array([[3.0, 8.5], [6.0, 12.5], [10.0, 17.0], [4.5, 19.0]])  # price, hour
mixes = rng.dirichlet(np.full(4, 0.5), 30)
shops = [kinds[rng.choice(4, 60, p=mix)] + rng.normal(size=(60, 2)) * (1.0, 1.2) for mix in mixes]

model = sb.HDPMixture(random_state=0).fit([sales[:40] for sales in shops])
plain = sb.DPMixture(random_state=0).fit(np.concatenate([sales[:40] for sales in shops]))
print(f"{model.n_components_} kinds of customers")
later = [sales[40:] for sales in shops]
print(
    f"nats a sale: {model.score(later):.2f}, without shops {plain.score(np.concatenate(later)):.2f}"
)

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), layout="constrained")
model.plot("groups", shops, ax=above)
model.plot("components", shops, ax=below)
figure.savefig("groups.png")
