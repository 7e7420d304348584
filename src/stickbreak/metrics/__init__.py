"""Scores of clusterings, topics and alignments that need no model: labels, words, links in.

V-measure, adjusted Rand index and the like are scikit-learn's: `sklearn.metrics.v_measure_score`.
"""

from .agreement import many_to_one, one_to_one, variation_of_information
from .alignment import AlignmentScores, alignment_error_rate, alignment_scores
from .coherence import npmi_coherence
from .completion import document_completion

__all__ = [
    "AlignmentScores",
    "alignment_error_rate",
    "alignment_scores",
    "document_completion",
    "many_to_one",
    "npmi_coherence",
    "one_to_one",
    "variation_of_information",
]
