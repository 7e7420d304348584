"""Words in strings: where spaces were

Sentences of a made-up language, written without spaces. A template grammar finds the segments that
occur again and again, without a dictionary. Boxes are the segments of one string, colors the slots
that they fill: a subject, a verb, and the words of an object, if there is one.
"""

import numpy as np

import stickbreak as sb

rng = np.random.default_rng(0)
nouns, verbs = ("mira", "tolo", "pexi", "ruva"), ("gisat", "bomet", "dukan", "lefis")
small = ("en", "ol", "uk")


def sentence() -> str:
    """Letters of a subject, a verb and perhaps an object."""
    parts = [rng.choice(nouns), rng.choice(verbs)]
    if rng.random() < 0.7:
        parts += [rng.choice(small), rng.choice(nouns)]
    return "".join(parts)


model = sb.TemplateGrammar("Noun Verb | Noun Verb Small Noun", concentration=1.0, random_state=0)
model.fit([sentence() for _ in range(300)])

ax = model.plot("segments", "miragisatoltolo")
ax.figure.savefig("words.png")
