"""Bad settings, weights, labels and checkpoints: one clear error that names the value, and nothing
written.
"""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import CASES, blobs

import stickbreak as sb

X = blobs(60)
WIDE = np.diag([1.0, -1.0])


def assert_refused(match: str, act) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def fit(rows=X, **settings):
    return sb.Mixture(settings.pop("n_components", 2), **{"random_state": 0, **settings}).fit(rows)


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True, None, 2.0, [2]], ids=repr)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_n_components_is_a_whole_number(cls, value):
    for method in ("fit", "partial_fit"):
        assert_refused(
            r"n_components must be a whole number of at least 1; got ",
            lambda m=method: getattr(cls(value), m)(X),
        )


SETTINGS = {
    "family name": (
        {"family": "gausian"},
        "unknown family 'gausian'; choose one of autoregressive",
    ),
    "family class": (
        {"family": sb.Gaussian},
        "family must be a name or a family object .*got <class",
    ),
    "family number": ({"family": 3}, "family must be a name or a family object .*got 3"),
    "engine name": ({"inference": "gibs"}, "unknown inference 'gibs'; choose one of batch"),
    "engine class": (
        {"inference": sb.BatchVB},
        "inference must be a name or an engine object .*got <class",
    ),
    "engine number": ({"inference": 3}, "inference must be a name or an engine object .*got 3"),
    "concentration zero": ({"concentration": 0}, "concentration must be a positive number; got 0"),
    "concentration negative": (
        {"concentration": -1.5},
        "concentration must be a positive number; got -1.5",
    ),
    "concentration nan": (
        {"concentration": np.nan},
        "concentration must be a positive number; got nan",
    ),
    "concentration inf": (
        {"concentration": np.inf},
        "concentration must be a positive number; got inf",
    ),
    "concentration text": (
        {"concentration": "1"},
        "concentration must be a positive number; got '1'",
    ),
    "concentration list": (
        {"concentration": [1, 2]},
        r"concentration must be a positive number; "
        r"got \[1, 2\]",
    ),
    "n_init zero": ({"n_init": 0}, "n_init must be .*at least 1; got 0"),
    "n_init half": ({"n_init": 1.5}, "n_init must be .*at least 1; got 1.5"),
    "n_init text": ({"n_init": "2"}, "n_init must be .*at least 1; got '2'"),
    "n_jobs zero": ({"n_jobs": 0}, "n_jobs must be a whole number other than 0; got 0"),
    "n_jobs half": ({"n_jobs": 1.5}, "n_jobs must be a whole number other than 0; got 1.5"),
    "seed": ({"random_state": "x"}, "'x' cannot be used to seed"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_bad_settings_are_refused(case):
    settings, message = SETTINGS[case]
    assert_refused(message, lambda: fit(**settings))


ENGINES = {
    "max_iter zero": (
        sb.BatchVB(max_iter=0),
        "max_iter must be a whole number of at least 1; got 0",
    ),
    "max_iter half": (
        sb.BatchVB(max_iter=2.5),
        "max_iter must be a whole number of at least 1; got 2.5",
    ),
    "max_iter text": (
        sb.BatchVB(max_iter="3"),
        "max_iter must be a whole number of at least 1; got '3'",
    ),
    "tol negative": (sb.BatchVB(tol=-1), "tol must be zero or positive; got -1"),
    "tol nan": (sb.BatchVB(tol=np.nan), "tol must be zero or positive; got nan"),
    "tol text": (sb.BatchVB(tol="a"), "tol must be zero or positive; got 'a'"),
    "n_batches zero": (
        sb.MemoizedVB(n_batches=0),
        'n_batches must be "auto" or .*at least 1; got 0',
    ),
    "n_batches word": (
        sb.MemoizedVB(n_batches="many"),
        "n_batches must be \"auto\" or .*at least 1; got 'many'",
    ),
    "n_batches half": (
        sb.MemoizedVB(n_batches=2.5),
        'n_batches must be "auto" or .*at least 1; got 2.5',
    ),
    "batch_size": (sb.StochasticVB(batch_size=0), "batch_size must be .*at least 1; got 0"),
    "batch_size half": (
        sb.StochasticVB(batch_size=2.5),
        "batch_size must be .*at least 1; got 2.5",
    ),
    "kappa": (sb.StochasticVB(kappa=2), "kappa must lie in .*got kappa=2"),
    "delay": (sb.StochasticVB(delay=-1), "delay .*positive.*delay=-1"),
}


@pytest.mark.parametrize("case", ENGINES)
def test_bad_engines_are_refused(case):
    engine, message = ENGINES[case]
    assert_refused(message, lambda: fit(inference=engine))


FAMILIES = {
    "mean length": (
        sb.Gaussian(mean=[1, 2, 3]),
        r"mean has shape \(3,\) but the data have 2 "
        r"columns",
    ),
    "mean nan": (sb.Gaussian(mean=[1, np.nan]), "mean must be finite; got"),
    "mean strength": (
        sb.Gaussian(mean_strength=0),
        "mean_strength must be a positive number; got 0",
    ),
    "mean strength text": (
        sb.Gaussian(mean_strength="a"),
        "mean_strength must be a positive number; got 'a'",
    ),
    "covariance indefinite": (
        sb.Gaussian(covariance=[[1, 2], [2, 1]]),
        "covariance must be symmetric and positive definite",
    ),
    "covariance skew": (
        sb.Gaussian(covariance=[[2, 1], [0, 2]]),
        "covariance must be symmetric and positive definite",
    ),
    "covariance negative": (
        sb.Gaussian(covariance=-1.0),
        "covariance must be symmetric and positive definite",
    ),
    "covariance nan": (
        sb.Gaussian(covariance=np.nan),
        "covariance must be symmetric and positive definite",
    ),
    "covariance shape": (
        sb.Gaussian(covariance=np.eye(3)),
        r"covariance has shape \(3, 3\) but "
        r"the data have 2 columns",
    ),
    "variances length": (
        sb.Gaussian(covariance=[1, 1, 1]),
        "covariance has 3 entries but the data have 2 columns",
    ),
    "dof small": (
        sb.Gaussian(dof=3),
        r"dof must be above the number of columns plus one \(3\); "
        r"got 3",
    ),
    "dof nan": (sb.Gaussian(dof=np.nan), "dof must be .*got nan"),
    "diagonal dof": (sb.DiagonalGaussian(dof=0), "dof must be above 2; got 0"),
    "diagonal variance": (
        sb.DiagonalGaussian(variance=-1),
        "variance must be a positive number; got -1",
    ),
    "diagonal length": (
        sb.DiagonalGaussian(variance=[1, 2, 3]),
        r"variance has shape \(3,\) but "
        r"the data have 2 columns",
    ),
    "zero mean dof": (
        sb.ZeroMeanGaussian(dof=2),
        r"dof must be above the number of columns plus "
        r"one \(3\); got 2",
    ),
    "fixed variance": (
        sb.FixedVarianceGaussian(variance=0),
        "variance must be a positive number; got 0",
    ),
}
OTHERS = {
    "categorical": (
        sb.Categorical(concentration=0),
        "concentration must be a positive number; got 0",
    ),
    "categorical symbols": (
        sb.Categorical(n_symbols=2),
        "column . (has symbol 2 but n_symbols=2|is 2.0; symbols are .* below 2)",
    ),
    "categorical columns": (
        sb.Categorical(n_symbols=(3, 3)),
        "n_symbols .*2.* but the data have 6 columns",
    ),
    "multinomial": (
        sb.Multinomial(concentration=-1),
        "concentration must be a positive number; got -1",
    ),
    "bernoulli": (sb.Bernoulli(on=0), "on must be a positive number; got 0"),
    "poisson": (sb.Poisson(rate=0), "rate must be a positive number; got 0"),
    "poisson shape": (
        sb.Poisson(shape=[1, 2, 3]),
        r"shape has shape \(3,\) but the data have 2 "
        r"columns",
    ),
    "poisson zero": (sb.Poisson(shape=0), "shape must be a positive number; got 0"),
}


@pytest.mark.parametrize("case", FAMILIES)
def test_bad_priors_of_real_vectors_are_refused(case):
    family, message = FAMILIES[case]
    assert_refused(message, lambda: fit(family=family))


@pytest.mark.parametrize("case", OTHERS)
def test_bad_priors_of_counts_and_symbols_are_refused(case):
    family, message = OTHERS[case]
    assert_refused(message, lambda: fit(CASES[case.split()[0]].rows, family=family))


ONES = np.ones(len(X))
WEIGHTS = {
    "negative": (np.where(np.arange(len(X)) == 3, -2.0, 1.0), "Negative values .*sample_weight"),
    "zero": (0 * ONES, "at least one non-zero"),
    "short": (ONES[:5], r"sample_weight.shape == \(5,\), expected \(60,\)"),
    "nan": (np.where(np.arange(len(X)) == 3, np.nan, 1.0), "sample_weight contains NaN"),
    "table": (ONES[:, None], "must be 1D"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_weights_are_refused(case):
    weights, message = WEIGHTS[case]
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(sb.Mixture(2), method)(X, sample_weight=weights)


def label(value, dtype=float) -> np.ndarray:
    labels = np.full(len(X), -1, dtype=dtype)
    labels[4] = value
    return labels


LABELS = {
    "too large": (label(2), "labels holds 2; with n_components=2 labels are -1 .unknown. to 1"),
    "too small": (label(-2), "labels holds -2; with n_components=2"),
    "short": (label(0)[:5], r"labels has shape \(5,\) but X has 60 rows"),
    "table": (label(0)[:, None], r"labels has shape \(60, 1\) but X has 60 rows"),
    "half": (label(0.5), "labels must be whole numbers"),
    "nan": (label(np.nan), "labels must be whole numbers"),
    "infinite": (label(np.inf), "labels "),
    "words": (label("a", object), "labels must be whole numbers"),
}


@pytest.mark.parametrize("case", LABELS)
def test_bad_labels_are_refused(case):
    labels, message = LABELS[case]
    for method in ("fit", "partial_fit"):
        assert_refused(
            message, lambda m=method: getattr(sb.Mixture(2, random_state=0), m)(X, labels=labels)
        )


def test_bad_arguments_of_a_fitted_model_are_refused():
    model = fit()
    assert_refused("n_samples must be .*at least 1; got 0", lambda: model.sample(0))
    assert_refused("n_samples must be .*at least 1; got 2.5", lambda: model.sample(2.5))
    assert_refused(
        "total_samples must be positive; got 0", lambda: model.partial_fit(X, total_samples=0)
    )
    for weights in (ONES[:3], 0 * ONES):
        with pytest.raises(ValueError, match=r"(?i)weight"):
            model.score(X, sample_weight=weights)
    with pytest.raises(AttributeError, match="Multinomial has no mean; posterior_ holds"):
        _ = fit(CASES["multinomial"].rows, family="multinomial").means_


@pytest.mark.parametrize(
    "bad",
    [{"family": "gausian"}, {"n_components": 0}, {"inference": sb.BatchVB(max_iter=0)}],
    ids=str,
)
def test_a_refused_fit_leaves_the_old_model(bad):
    model = fit()
    before, bound = model.score_samples(X), model.lower_bound_
    model.set_params(**bad)
    with pytest.raises(ValueError, match=r"unknown family|at least 1"):
        model.fit(X[:, :1] * 3.0)
    model.set_params(n_components=2, family="gaussian", inference=None)
    assert model.lower_bound_ == bound
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.score_samples(X), before)


# ---- checkpoints ---------------------------------------------------------------------------------


def engine(path, **settings):
    return sb.MemoizedVB(n_batches=3, checkpoint=path, checkpoint_every=0.0, **settings)


def test_bad_checkpoint_places_are_refused_before_the_fit(tmp_path):
    missing = tmp_path / "none" / "fit.ckpt"
    assert_refused(
        "checkpoint='.*fit.ckpt': no such folder: .*none",
        lambda: fit(inference=engine(missing)),
    )
    assert_refused(
        "a checkpoint holds one start; got n_init=2",
        lambda: fit(inference=engine(tmp_path / "c"), n_init=2),
    )
    assert list(tmp_path.iterdir()) == []


def test_resume_needs_the_right_checkpoint(tmp_path):
    path = tmp_path / "fit.ckpt"
    make = lambda **settings: sb.Mixture(2, inference=engine(path), random_state=0, **settings)
    assert_refused("resume needs an engine with checkpoint=", lambda: sb.Mixture(2).resume(X))
    with pytest.raises(sb.CheckpointError, match=r"there is no checkpoint at .*fit\.ckpt"):
        make().resume(X)
    with pytest.raises(sb.CheckpointError, match=r"there is no checkpoint at .*fit\.ckpt"):
        sb.resume(path, X)
    model = make().fit(X)
    assert [p.name for p in tmp_path.iterdir()] == ["fit.ckpt"]
    for wrong in (X + 1e-9, X[:50], X.astype(np.float32)):
        with pytest.raises(sb.CheckpointError, match="was written for other data"):
            make().resume(wrong)
    with pytest.raises(sb.CheckpointError, match=r"was written with concentration=1\.0"):
        make(concentration=2.0).resume(X)
    with pytest.raises(sb.CheckpointError, match="was written for other data"):
        make().resume(X, sample_weight=2 * ONES)
    with pytest.raises(sb.CheckpointError, match="was written with estimator='Mixture'"):
        sb.DPMixture(2, inference=engine(path), random_state=0).resume(X)
    assert make().resume(X).lower_bound_ == model.lower_bound_
    assert sb.resume(path, X).lower_bound_ == model.lower_bound_


def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path):
    path = tmp_path / "fit.ckpt"
    make = lambda: sb.Mixture(2, inference=engine(path), random_state=0)
    make().fit(X).save(tmp_path / "model")
    whole = path.read_bytes()
    for payload in (
        whole[:200],
        whole[:-5],
        b"",
        b"hello, world",
        (tmp_path / "model").read_bytes(),
    ):
        path.write_bytes(payload)
        assert_refused("fit.ckpt", lambda: make().resume(X))
        assert_refused("fit.ckpt", lambda: sb.resume(path, X))
    assert_refused(
        "'checkpoint' file; expected a 'model' file",
        lambda: (path.write_bytes(whole), sb.load(path)),
    )
