"""Pages about fitted models: what is gathered of the model, and of data it is shown."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak._version import __version__
from stickbreak.parameters import Parameters
from stickbreak.reading import Rows
from stickbreak.report.markup import clean
from stickbreak.stats import Array

from .fitted import Fitted

if TYPE_CHECKING:
    from stickbreak.report import Finding, Report, Subject

    from .base import Estimator

__all__ = ["diagnose", "make_subject", "observe_score", "write_report"]

KEEPS = ("sample", "none")
ADDRESS = re.compile(r" (?:object )?at 0x[0-9A-Fa-f]+")


def write_report(
    self: Estimator,
    X: Rows | None = None,
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    by: Any = None,
    data: str = "sample",
    texts: bool = True,
) -> Report:
    """A page about the fitted model: one HTML file to look at, share and keep.

    Parameters
    ----------
    X : data to show with the model, as in `predict`; sequences as a list of arrays. Without them
        the page has what the model alone knows, and says what is missing.
    title : heading of the page. Default: the name of the model.
    names : the user's names of components, by number as in `predict`: `{14: "jogging"}`. The
        model keeps them, and so does `save`; `{}` forgets them.
    by : one value for each row, sequence or document of X: how components differ between groups.
    data : "sample", at most 2,000 rows of X may be in the page; "none", only sums and averages.
    texts : whether words of documents and sentences of X, and names of groups of `by`, may be in
        the page.

    Returns
    -------
    Report, with `save(path)`, `show()` and `html`. The same model and data give the same bytes.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> page = sb.Mixture(2, random_state=0).fit(X).report(X, title="Two groups")
    >>> "<h1>Two groups</h1>" in page.html
    True
    >>> page.save("groups.html")  # doctest: +SKIP
    """
    from stickbreak.report import write_page

    subject = make_subject(self, X, names=names, by=by, data=data, texts=texts)
    return write_page(replace(subject, title=str(title or "")))


def observe_score(
    self: Estimator, subject: Subject, X: Rows, by: Any, where: Mapping[str, Any] | None = None
) -> Subject:
    """The subject with what the model says of X. where : lengths and the like, of sequences."""
    from stickbreak.report import Observed

    if by is not None:
        raise ValueError(f"by= is not for {type(self).__name__}, whose rows are words")
    n = round(float(subject.counts.sum()))
    score = float(self.score(X))  # type: ignore[attr-defined]
    return replace(subject, observed=Observed(n_rows=n, n_units=0, score=score))


def diagnose(model: Estimator, X: Rows | None = None) -> list[Finding]:
    """Check a fitted model: what looks wrong, what was measured, what to do.

    Statistics of the data are compared with those of data drawn from the model, never with a fixed
    number: a check asks for a look where the data are further out than all of the draws.

    Parameters
    ----------
    model : fitted estimator.
    X : data to check it on, as in `predict`; sequences as a list of arrays. Without data, only
        the fit itself is checked.

    Returns
    -------
    list of Finding (level, title, measured, advice, code); level is "look", "fine" or "remark".

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = sb.Mixture(1, random_state=0).fit(X)
    >>> [finding.level for finding in sb.diagnose(model, X)]
    ['fine', 'remark', 'fine', 'fine', 'fine']
    """
    return list(make_subject(model, X).findings)


def make_subject(
    model: Estimator,
    X: Rows | None = None,
    *,
    names: Mapping[int, str] | None = None,
    by: Any = None,
    data: str = "sample",
    texts: bool = True,
    where: Mapping[str, Any] | None = None,
) -> Subject:
    """All values that a page is written from."""
    from stickbreak import report

    fitted = model._require_fitted()
    if names is not None:
        fitted = model._fitted = _with_names(fitted, names, model._noun)
    if data not in KEEPS:
        raise ValueError(f"data must be one of {', '.join(map(repr, KEEPS))}; got {data!r}")
    if isinstance(X, list | tuple) and not len(X):
        raise ValueError("X is empty; give data to show with the model, or no X")
    if by is not None and X is None:
        raise ValueError("by= groups the rows of X; give X too")
    subject = report.Subject(
        about=type(model).__name__,
        structure=fitted.model.structure,
        family=fitted.model.family,
        trace=fitted.trace,
        weights=fitted.weights,
        counts=np.array(fitted.model.prior.sizes(fitted.counts)),
        ids=fitted.ids,
        posterior=fitted.posterior(),
        columns=model._column_names(fitted),
        noun=model._noun,
        several=getattr(model, "_plural", f"{model._noun}s"),
        unit=model._row_noun,
        objective=fitted.rule.objective,
        bound=float(fitted.bound),
        is_converged=fitted.is_converged,
        names={k: fitted.names[i] for k, i in enumerate(fitted.ids) if i in fitted.names},
        starts=fitted.starts,
        labels_of={str(name): values for name, values in fitted.schema.categories.items()},
        keeps=data,
        shows_texts=texts and data != "none",
        settings=settings_of(model),
        versions={"stickbreak": __version__, "numpy": np.__version__,
                  "Python": platform.python_version()},
        digests={"model": model_digest(fitted)},
        code=_code(model),
    )  # fmt: skip
    subject = model._report_values(subject)
    if X is not None:
        subject = model._observe(subject, X, by, where)
    return replace(subject, findings=report.find_all(subject))


def _with_names(fitted: Fitted, names: Mapping[int, str], noun: str) -> Fitted:
    """The fit with the user's names, which `save` keeps; an empty dict forgets all names."""
    if not isinstance(names, Mapping):
        raise ValueError(f"names is a dict from numbers of {noun}s to names; got {names!r}")
    found = dict(fitted.names) if names else {}
    for k, name in names.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise ValueError(f"names is a dict from numbers of {noun}s to names; got key {k!r}")
        if not 0 <= k < len(fitted.ids):
            raise ValueError(f"names has {k}, but the {noun}s are 0 to {len(fitted.ids) - 1}")
        found[fitted.ids[int(k)]] = clean(str(name))
    return replace(fitted, names=found)


def settings_of(model: Estimator) -> dict[str, str]:
    """Arguments that differ from their defaults, as text that says nothing of this computer."""
    defaults = type(model)().get_params(deep=False)
    return {
        name: ADDRESS.sub("", _text(value))
        for name, value in model.get_params(deep=False).items()
        if _text(value) != _text(defaults[name]) and name not in ("verbose", "n_jobs")
    }


def _text(value: Any) -> str:
    """The same text for a value and for what a model file gives back: a list may be a tuple."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())}}}"
    if isinstance(value, Parameters):
        return _parts_text(value)
    return repr(value)


def _parts_text(value: Parameters) -> str:
    default = {f.name: f.default for f in fields(value)}  # type: ignore[arg-type]
    told = [
        f"{name}={_text(own)}"
        for name, own in value.get_params(deep=False).items()
        if name not in ("callbacks", "checkpoint") and _text(own) != _text(default.get(name))
    ]
    return f"{type(value).__name__}({', '.join(told)})"


def model_digest(fitted: Fitted) -> str:
    """SHA-256 of what was learned: counts, parameters, ids."""
    digest = hashlib.sha256()
    for found in (fitted.counts, fitted.params):
        for name in sorted(found):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(found[name]).tobytes())
    digest.update(repr(tuple(int(i) for i in fitted.ids)).encode())
    return digest.hexdigest()


def data_digest(parts: Any) -> str:
    """SHA-256 of arrays."""
    digest = hashlib.sha256()
    for part in parts:
        array = np.ascontiguousarray(part)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def words_digest(units: Any) -> str:
    """SHA-256 of units, such as sentences, that are lists of words."""
    digest = hashlib.sha256()
    for unit in units:
        digest.update("".join(f"{word}\0" for word in unit).encode(errors="replace") + b"\n")
    return digest.hexdigest()


def group_shares(subject: Subject, by: Any, labels: Array, what: str) -> dict[str, Array]:
    """Shares (K,) of the components in each group, the commonest 12 groups.

    Without texts groups have numbers for names, and without rows none is of a few.
    """
    from stickbreak.report.columns import FEWEST

    if by is None:
        return {}
    values = np.asarray(by, dtype=object).ravel()
    if len(values) != len(labels):
        raise ValueError(f"by has {len(values):,} entries for {len(labels):,} {what}s of X")
    texts = np.array([str(v) for v in values], dtype=object)
    found, counts = np.unique(texts, return_counts=True)
    fewest = FEWEST if subject.keeps == "none" else 1
    order = [g for g in np.argsort(-counts, kind="stable")[:12] if counts[g] >= fewest]
    return {
        str(found[g]) if subject.shows_texts else f"group {at}": np.bincount(
            labels[texts == found[g]], minlength=len(subject.weights)
        )
        / counts[g]
        for at, g in enumerate(order, 1)
    }


def _code(model: Estimator) -> Sequence[str]:
    """What to do next, as code; file names are the reader's to fill in."""
    answer = "model.transform(X)" if hasattr(model, "transform") else "model.predict(X)"
    return (
        "import stickbreak as sb",
        'model = sb.load("model.stickbreak")  # the file that model.save(...) wrote',
        f"found = {answer}",
        "score = model.score(X_new)  # held-out data: compare models by this",
        "findings = sb.diagnose(model, X)",
        "print(model.explain_moves())",
        "from sklearn.base import clone",
        "again = clone(model).set_params(random_state=1).fit(X)  # does another start agree?",
        "print(sb.compare([model, again]))",
    )
