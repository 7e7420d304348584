"""Scores of clusterings and topics that need no model: labels, words and probabilities in.

V-measure, adjusted Rand index and the like are scikit-learn's: `sklearn.metrics.v_measure_score`.
"""

from .agreement import many_to_one, one_to_one, variation_of_information
from .coherence import npmi_coherence
from .completion import document_completion

__all__ = [
    "document_completion",
    "many_to_one",
    "npmi_coherence",
    "one_to_one",
    "variation_of_information",
]
