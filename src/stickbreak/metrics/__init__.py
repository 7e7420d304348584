"""Scores of clusterings, topics and trees that need no model: labels, words, trees in.

V-measure, adjusted Rand index and the like are scikit-learn's: `sklearn.metrics.v_measure_score`.
"""

from .agreement import many_to_one, one_to_one, variation_of_information
from .coherence import npmi_coherence
from .completion import document_completion
from .trees import Attachment, SpanScores, attachment, span_scores

__all__ = [
    "Attachment",
    "SpanScores",
    "attachment",
    "document_completion",
    "many_to_one",
    "npmi_coherence",
    "one_to_one",
    "span_scores",
    "variation_of_information",
]
