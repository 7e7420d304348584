"""scikit-learn's conventions for estimators, with scikit-learn itself imported only by what needs
it.

Importing scikit-learn takes twice as long as importing all of stickbreak, and fitting an array
needs none of it. So parameters are handled here, and everything else that
`sklearn.base.BaseEstimator` gives (tags, metadata requests, the picture in a notebook) is asked of
it at the first use. Estimators are known by what they do (`get_params`, `__sklearn_tags__`), as
scikit-learn itself knows them, not by their base class.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Self, cast

__all__ = ["Conventions"]

ASKED_OF_SKLEARN = frozenset(
    {
        "get_metadata_routing",
        "set_fit_request",
        "set_partial_fit_request",
        "set_predict_proba_request",
        "set_predict_request",
        "set_score_request",
        "_get_metadata_request",
        "_get_class_level_metadata_request_values",
        "_get_doc_link",
        "_get_fitted_attr_html",
        "_get_params_html",
        "_html_repr",
        "_doc_link_module",
        "_doc_link_template",
        "_doc_link_url_param_generator",
        "_repr_html_",
        "_repr_html_inner",
        "_repr_mimebundle_",
    }
)


@cache
def _twin(cls: Hashable) -> Any:
    """The class as it would be had it BaseEstimator for a base."""
    assert isinstance(cls, type)
    from sklearn.base import BaseEstimator, DensityMixin

    return type(cls.__name__, (cls, DensityMixin, BaseEstimator), {"__module__": cls.__module__})


class Conventions:
    """`get_params`, `set_params`, a readable repr, tags, and a clear error before `fit`."""

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Keep the constructor's arguments under their own names, as they are."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments of the constructor and their values; with `deep` also those of arguments that
        have arguments.
        """
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{inner}": v for inner, v in value.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Change arguments by name, `argument__inner` for an argument's own; returns self."""
        names = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid "
                    f"parameters are: {names}."
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = {
            n: repr(v)
            for n in defaults
            if n != "self" and (v := getattr(self, n)) is not defaults[n].default
        }
        changed = [
            f"{name}={text}" for name, text in given.items() if text != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        tags = BaseEstimator.__sklearn_tags__(self)
        tags.estimator_type = "density_estimator"
        return tags

    def __getattr__(self, name: str) -> Any:
        if name in ASKED_OF_SKLEARN:
            twin = _twin(cast(Hashable, type(self)))
            found = inspect.getattr_static(twin, name)
            return found.__get__(self, twin) if hasattr(found, "__get__") else found
        # raises, with a property's own words if it has any
        return object.__getattribute__(self, name)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        raise NotImplementedError
