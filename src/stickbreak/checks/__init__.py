"""Public batteries: what a family, structure, model or estimator, ours or yours, must pass."""

from .estimators import check_estimator
from .families import check_family
from .models import check_model
from .structures import check_structure

__all__ = ["check_estimator", "check_family", "check_model", "check_structure"]
