"""What scikit-learn asks of an estimator, answered without importing it before it does."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

__all__ = ["ASKED_OF_SKLEARN", "twin_of"]

ASKED_OF_SKLEARN = frozenset((
    "get_metadata_routing", "set_fit_request", "set_partial_fit_request", "set_predict_request",
    "set_predict_proba_request", "set_score_request", "_get_metadata_request",
    "_get_class_level_metadata_request_values", "_get_doc_link", "_get_fitted_attr_html",
    "_get_params_html", "_html_repr", "_doc_link_module", "_doc_link_template",
    "_doc_link_url_param_generator", "_repr_html_", "_repr_html_inner", "_repr_mimebundle_",
))  # fmt: skip


@cache
def twin_of(cls: Hashable) -> Any:
    """The class as it would be with BaseEstimator as a base."""
    assert isinstance(cls, type)
    from sklearn.base import BaseEstimator, DensityMixin

    return type(cls.__name__, (cls, DensityMixin, BaseEstimator), {"__module__": cls.__module__})
