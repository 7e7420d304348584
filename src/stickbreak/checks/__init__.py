"""Public test batteries for families, structures, models, estimators and pages, ours or yours."""

from .estimators import check_estimator
from .families import check_family
from .models import check_model
from .reports import check_report
from .structures import check_structure

__all__ = ["check_estimator", "check_family", "check_model", "check_report", "check_structure"]
