"""Scores that need no model, of clusterings, topics, alignments, trees and segments.

V-measure, adjusted Rand index and the like are scikit-learn's: `sklearn.metrics.v_measure_score`.
"""

from .agreement import many_to_one, one_to_one, variation_of_information
from .alignment import AlignmentScores, alignment_error_rate, alignment_scores
from .coherence import npmi_coherence
from .completion import document_completion
from .segments import SegmentScores, segment_scores
from .trees import Attachment, SpanScores, attachment, span_counts, span_scores

__all__ = [
    "AlignmentScores",
    "Attachment",
    "SegmentScores",
    "SpanScores",
    "alignment_error_rate",
    "alignment_scores",
    "attachment",
    "document_completion",
    "many_to_one",
    "npmi_coherence",
    "one_to_one",
    "segment_scores",
    "span_counts",
    "span_scores",
    "variation_of_information",
]
