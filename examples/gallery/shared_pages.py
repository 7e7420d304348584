"""Pages to share

A page is one file with figures, tables and checks of a model, and needs no network. Here are four:
wines in a table, drawn recordings with three states, topics of Python's own manual, and two models
of the wines compared. The picture shows how large the files are.
"""

import re
from pydoc_data.topics import topics

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine

import stickbreak as sb

rng = np.random.default_rng(0)
wines = pd.DataFrame(load_wine().data, columns=load_wine().feature_names)
mixture = sb.DPMixture(random_state=0).fit(wines)
plain = sb.DPMixture(family="diagonal", random_state=0).fit(wines)

states = [np.repeat(rng.integers(0, 3, 12), rng.integers(8, 40, 12)) for _ in range(6)]
walks = [np.array([[0, 0], [4, 1], [-3, 5]])[z] + rng.normal(size=(len(z), 2)) for z in states]
chain = sb.HDPHMM(stickiness=20, random_state=0).fit(walks)

texts = [part for text in topics.values() for part in re.split(r"\n\n+", text) if len(part) > 200]
words = [re.findall(r"[a-z]{4,}", text.lower()) for text in texts]
manual = sb.LatentDirichletAllocation(12, random_state=0).fit(words)

pages = {
    "mixture": mixture.report(wines, title="178 wines, 13 measurements"),
    "chain": chain.report(walks, title="Six recordings"),
    "topics": manual.report(words, title="Paragraphs of a manual"),
    "comparison": sb.compare([mixture, plain], wines, names=["full", "diagonal"]).report(),
}
for name, page in pages.items():
    page.save(f"shared_pages-{name}.html", force=True)

figure, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.barh(list(pages), [len(page.html) / 1000 for page in pages.values()], color="#0072B2")
ax.set(xlabel="size of the page (KB)", xlim=(0, 450))
figure.savefig("shared_pages.png")
