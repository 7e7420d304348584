"""Mixtures of rows in groups: what they find, their scores by plain loops, their manners."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

import stickbreak as sb
from stickbreak.checks import check_estimator
from stickbreak.checks.estimators import SEQUENCE_CHECKS
from stickbreak.estimators.group_answers import N_FOLDS, _folds

CENTERS = 7.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)], dtype=float)


def draw(n_groups: int, n_rows: int, seed: int = 0, centers: np.ndarray = CENTERS):
    """Groups of rows, their shares, and the components of the rows."""
    rng, K = np.random.default_rng(seed), len(centers)
    shares = rng.dirichlet(np.full(K, 0.3), n_groups)
    labels = [rng.choice(K, n_rows, p=share) for share in shares]
    rows = [centers[own] + rng.normal(size=(n_rows, 2)) for own in labels]
    return rows, shares, labels


GROUPS, SHARES, LABELS = draw(40, 25)
STACKED, LENGTHS = np.concatenate(GROUPS), [25] * 40


@pytest.fixture(scope="module")
def fitted() -> sb.HDPMixture:
    return sb.HDPMixture(random_state=0).fit(GROUPS)


def matched(model, labels=LABELS) -> np.ndarray:
    """(K,) the component that holds most rows of each true one."""
    found = np.concatenate(model.labels_)
    return np.array([np.bincount(found[np.concatenate(labels) == k]).argmax() for k in range(5)])


# ---- what it finds -------------------------------------------------------------------------------


def test_components_and_shares_of_groups_are_found(fitted):
    assert fitted.n_components_ == 5
    order = matched(fitted)
    assert sorted(order) == list(range(5))
    np.testing.assert_allclose(fitted.means_[order], CENTERS, atol=0.5)
    # 25 rows tell a share to about 0.1
    assert np.abs(fitted.group_shares(GROUPS)[:, order] - SHARES).mean() < 0.05
    bounds = fitted.trace_.bound
    assert np.diff(bounds[np.isfinite(bounds)])[1:].min() >= -1e-9 * abs(bounds[-1])


def test_births_divide_what_a_poor_start_blends():
    engine = sb.MemoizedVB(moves=[sb.Birth(), sb.Merge(), sb.Delete()], n_batches=2)
    model = sb.HDPMixture(2, inference=engine, init="random", random_state=0).fit(GROUPS)
    assert model.n_components_ == 5
    assert any(m.kind == "birth" and m.is_accepted for m in model.trace_.moves)


def test_groups_predict_their_rows_better_than_a_mixture_without_them():
    """Where components overlap, a group's shares tell which one a row is of."""
    near = CENTERS / 5
    rows, *_ = draw(60, 40, 1, near)
    new, *_ = draw(30, 40, 2, near)
    settings = {"n_components": 5, "inference": sb.BatchVB(max_iter=100), "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        grouped = sb.HDPMixture(**settings).fit(rows)
        plain = sb.Mixture(**settings).fit(np.concatenate(rows))
    assert grouped.score(new) > plain.score(np.concatenate(new)) + 0.1


def test_a_stream_finds_the_components_of_later_groups():
    model, order = sb.HDPMixture(random_state=0), np.argsort(SHARES.argmax(1), kind="stable")
    for part in np.split(order, 4):
        model.partial_fit([GROUPS[g] for g in part])
    assert model.n_components_ == 5
    whole = sb.HDPMixture(random_state=0).fit(GROUPS)
    assert model.lower_bound_ > whole.lower_bound_ - 0.01 * abs(whole.lower_bound_)


def test_learned_concentrations_are_near_the_true_ones():
    rows, *_ = draw(200, 30, 3)
    priors = {"concentration": sb.GammaPrior(), "top_concentration": sb.GammaPrior()}
    model = sb.HDPMixture(random_state=0, **priors).fit(rows)
    assert 0.8 < model.concentration_ < 3.0  # 5 shares of 0.3 each
    low, high = model.top_concentration_interval_
    assert low < model.top_concentration_ < high


# ---- answers -------------------------------------------------------------------------------------


def plain_shares(evidence: np.ndarray, pseudo: np.ndarray) -> np.ndarray:
    """(K,) mean shares of a group, by the fixed point written out."""
    counts = np.zeros(len(pseudo))
    for step in range(2000):
        weights = np.log(pseudo) if step == 0 else digamma(counts + pseudo)
        logits = evidence + weights
        counts = np.exp(logits - logsumexp(logits, axis=1, keepdims=True)).sum(0)
    return (counts + pseudo) / (counts + pseudo).sum()


def test_scores_are_those_of_a_plain_loop(fitted):
    new, *_ = draw(3, 11, 5)
    new.append(new[0][:1])  # alone in its group
    potentials = fitted._require_fitted().predictive()
    family, pseudo = fitted.family_, potentials["pseudo"]
    for rows, found in zip(new, fitted.score_samples(new), strict=True):
        evidence = potentials.scores.evidence(family.prepare(rows))
        folds = _folds(len(rows))
        for n, value in enumerate(found):
            shares = plain_shares(evidence[folds != folds[n]], pseudo)
            # fixed points end when counts change by 1e-4 on average
            assert value == pytest.approx(logsumexp(evidence[n] + np.log(shares)), abs=1e-3)
    every = np.concatenate(fitted.score_samples(new))
    assert fitted.score(new) == pytest.approx(every.mean())
    weighted = fitted.score(new, sample_weight=[1, 0, 0, 2])
    assert weighted == pytest.approx((every[:11].sum() + 2 * every[-1]) / 13)
    assert all(np.bincount(_folds(n), minlength=N_FOLDS).max() <= -(-n // 5) for n in range(1, 30))


def test_a_score_depends_on_no_other_group(fitted):
    some = fitted.score_samples(GROUPS[3:5])
    every = fitted.score_samples(GROUPS)
    np.testing.assert_array_equal(some[1], every[4])
    assert fitted.score_groups(GROUPS[3:4]) == pytest.approx(fitted.score_groups(GROUPS)[3])


def test_the_bound_of_a_group_is_below_what_its_parts_tell(fitted):
    """Rows one after another, each given those before, are a better bound than all at once."""
    group, potentials = GROUPS[0], fitted._require_fitted().predictive()
    evidence = potentials.scores.evidence(fitted.family_.prepare(group))
    first = [group[:n] for n in range(1, 26)]
    shares = fitted.group_shares(first)
    prior = potentials["pseudo"] / potentials["pseudo"].sum()
    steps = np.log(np.vstack([prior, shares[:-1]])) + evidence
    assert fitted.score_groups([group])[0] < logsumexp(steps, axis=1).sum() + 0.5


def test_groups_are_given_in_several_ways(fitted):
    ids = np.repeat(np.arange(40), 25)
    frame = pd.DataFrame({"shop": ids, "a": STACKED[:, 0], "b": STACKED[:, 1]})
    labels = np.concatenate(fitted.labels_)
    np.testing.assert_array_equal(np.concatenate(fitted.predict(GROUPS)), labels)
    for where in ({"lengths": LENGTHS}, {"sequence_id": ids}):
        other = sb.HDPMixture(random_state=0).fit(STACKED, **where)
        np.testing.assert_array_equal(other.labels_, labels)
        np.testing.assert_array_equal(other.predict(STACKED, **where), labels)
        assert other.score(STACKED, **where) == fitted.score(GROUPS)
    named = sb.HDPMixture(random_state=0).fit(frame, sequence_id="shop")
    assert named.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(named.labels_, labels)
    shares = named.group_shares(frame, sequence_id="shop")
    # a frame holds its columns one after another, and sums round differently
    np.testing.assert_allclose(shares, fitted.group_shares(GROUPS), rtol=1e-12)
    proba = fitted.predict_proba(GROUPS)
    assert [p.shape for p in proba] == [(25, 5)] * 40
    np.testing.assert_allclose(np.concatenate(proba).sum(1), 1.0)


def test_weights_are_repeats():
    some, weights = GROUPS[:12], [2, 1] * 6
    twice = [g for g, n in zip(some, weights, strict=True) for _ in range(n)]
    prior = sb.Gaussian(dof=4.0, covariance=np.eye(2), mean=np.zeros(2), mean_strength=0.1)
    settings = {"family": prior, "labels": [np.asarray(own) for own in LABELS[:12]]}
    found = []
    for groups, own, more in (
        (some, LABELS[:12], {"sample_weight": weights}),
        (twice, [o for o, n in zip(LABELS, weights, strict=False) for _ in range(n)], {}),
    ):
        model = sb.HDPMixture(5, family=settings["family"], random_state=0)
        model.set_params(inference=sb.MemoizedVB(moves=None), init="random")
        found.append(model.fit(groups, labels=own, **more).lower_bound_)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_known_labels_name_components():
    known = [np.where(np.arange(25) < 5, own, -1) for own in LABELS]
    engine = sb.MemoizedVB(moves=None)
    model = sb.HDPMixture(5, inference=engine, init="random", random_state=0)
    found = np.concatenate(model.fit(GROUPS, labels=known).labels_)
    assert (found == np.concatenate(LABELS)).mean() > 0.99


@pytest.mark.parametrize(
    "family", ["diagonal", "poisson", "categorical", "bernoulli", "fixed-variance"]
)
def test_every_family_takes_groups(family):
    rng = np.random.default_rng(0)
    rows = np.abs(np.concatenate([g[:, :2] for g in GROUPS])).round()
    rows = (rows > 3).astype(int) if family == "bernoulli" else rows
    rows = np.minimum(rows, 9).astype(int) if family == "categorical" else rows
    groups = np.split(rows, 40)
    engine = sb.MemoizedVB(moves=None, n_batches=2)
    model = sb.HDPMixture(3, family=family, inference=engine, random_state=0).fit(groups)
    assert np.isfinite(model.score(groups))
    drawn, labels = model.sample(4, random_state=rng)
    assert drawn.shape == (4, 2)
    assert labels.shape == (4,)


def test_missing_entries_are_filled_from_the_group():
    rng = np.random.default_rng(0)
    holes = [np.where(rng.random(g.shape) < 0.1, np.nan, g) for g in GROUPS]
    model = sb.HDPMixture(random_state=0).fit(holes)
    assert model.n_components_ == 5
    filled = np.concatenate(model.impute(holes))
    gone = np.isnan(np.concatenate(holes))
    # a row that lacks an entry may be of two components
    assert np.abs(filled - STACKED)[gone].mean() < 3.0
    assert (filled == STACKED)[~gone].all()


# ---- manners -------------------------------------------------------------------------------------


def test_files_copies_and_draws(fitted, tmp_path):
    fitted.save(tmp_path / "model.stickbreak")
    loaded = sb.load(tmp_path / "model.stickbreak")
    np.testing.assert_array_equal(loaded.group_shares(GROUPS), fitted.group_shares(GROUPS))
    assert loaded.score(GROUPS) == fitted.score(GROUPS)
    assert clone(fitted).get_params() == fitted.get_params()
    rows, labels = fitted.sample(lengths=[3, 6], random_state=1)
    assert [r.shape for r in rows] == [(3, 2), (6, 2)]
    assert [len(own) for own in labels] == [3, 6]


def test_threads_do_not_change_the_result(fitted):
    with_two = sb.HDPMixture(random_state=0, n_jobs=2).fit(GROUPS)
    assert with_two.lower_bound_ == fitted.lower_bound_


def test_data_on_disk_give_the_same_model(fitted, tmp_path):
    np.save(tmp_path / "rows.npy", STACKED)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = sb.HDPMixture(random_state=0).fit(rows, lengths=LENGTHS)
    assert found.lower_bound_ == pytest.approx(fitted.lower_bound_, rel=1e-12)
    np.testing.assert_array_equal(found.labels_, np.concatenate(fitted.labels_))


def test_searches_split_by_groups():
    from sklearn import config_context

    ids = np.repeat(np.arange(40), 25)
    engine = sb.MemoizedVB(moves=None, max_iter=50)
    model = sb.HDPMixture(inference=engine, random_state=0)
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, {"n_components": [2, 5]}, cv=GroupKFold(2))
        search.fit(STACKED, sequence_id=ids, groups=ids)
    assert search.best_params_ == {"n_components": 5}


@pytest.mark.slow
def test_the_public_battery_passes():
    found = check_estimator(sb.HDPMixture(3, random_state=0), STACKED)
    failed = {r["check_name"] for r in found if r["status"] == "xfail"}
    assert failed <= set(SEQUENCE_CHECKS)  # by name, with their reasons
    assert sum(r["status"] == "passed" for r in found) >= 40


def test_pictures_and_pages(fitted, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    fitted.plot(X=GROUPS).savefig(tmp_path / "groups.png")
    assert fitted.plot("groups", GROUPS).get_title(loc="left") == "shares of components in groups"
    plt.close("all")
    page = fitted.report(GROUPS, by=["old"] * 20 + ["new"] * 20).html
    assert "HDPMixture" in page
    assert "old" in page
    assert {f.level for f in sb.diagnose(fitted, GROUPS)} <= {"fine", "look", "remark"}


@pytest.mark.parametrize(
    ("settings", "X", "message"),
    [
        ({}, [np.zeros((3, 2)), np.zeros((0, 2))], "sequence 1 has no rows"),
        ({}, [np.zeros((3, 2)), np.zeros((3, 3))], "3 columns, the first has 2"),
        ({"concentration": -1.0}, GROUPS, "concentration must be a positive number"),
        ({"root": "tables"}, GROUPS, "root"),
        ({"init": "blocks"}, GROUPS, "unknown init 'blocks'"),
    ],
)
def test_bad_input_is_one_sentence(settings, X, message):
    with pytest.raises(ValueError, match=message):
        sb.HDPMixture(**settings).fit(X)


def test_bad_lengths_and_draws_are_one_sentence(fitted):
    with pytest.raises(ValueError, match="lengths sums to 4 but X has 1000 rows"):
        fitted.predict(STACKED, lengths=[2, 2])
    with pytest.raises(ValueError, match="lengths must be a whole number"):
        fitted.sample(lengths=[0])


def test_groups_whose_rows_depend_on_those_before_are_saved(tmp_path):
    model = sb.HDPMixture(3, family="autoregressive", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(GROUPS[:4])
    model.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    np.testing.assert_array_equal(again.predict(GROUPS[4]), model.predict(GROUPS[4]))
