"""Mixed columns: a Product is the sum of its members, wherever their columns are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, evidence, fit, random_start, slack, start_from
from oracles import conjugate, mixture
from registers import FAMILIES, collect, random_shares
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.inference import BatchVB, MemoizedVB
from stickbreak.stats import Compose, Permute, Reanchor, Summary, Within

CASE = FAMILIES["product"]
N, K = len(CASE.rows), 3
# The same numbers added up in another order.
SAME = 1e-12


def mixed(n: int, seed: int = 0) -> np.ndarray:
    """(n, 6) rows of three groups: two reals, a symbol, a truth, an event count, a real."""
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(n) % 3)
    real = np.array([[-6.0, 0.0, 2.0], [0.0, 7.0, -2.0], [6.0, -1.0, 0.0]])[z] + rng.normal(
        size=(n, 3)
    )
    symbol = np.where(rng.random(n) < 0.8, z, rng.integers(0, 3, n))
    truth = rng.random(n) < np.array([0.1, 0.9, 0.5])[z]
    return np.column_stack(
        [real[:, :2], symbol, truth, rng.poisson(np.array([1.0, 6.0, 15.0])[z]), real[:, 2]]
    )


ROWS = mixed(90)
MEMBERS = {"gaussian": [0, 1], "categorical": 2, "bernoulli": [3], "poisson": [4], "diagonal": [5]}


def resolved(family: Any, rows: np.ndarray) -> Any:
    return family.resolve(measure(Table(rows)))


# ---- sums over members ---------------------------------------------------------------------------
def own_parts(family: Any, rows: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Each member alone, with its columns."""
    return [(member, rows[:, list(columns)]) for member, columns in family.members]


@pytest.mark.parametrize("value", ["log_marginal", "log_mode"])
def test_values_are_sums_over_the_members(value: str) -> None:
    shares = random_shares(N, K, 0)
    found = getattr(CASE.family, value)(collect(CASE.family, CASE.rows, shares))
    parts = [
        getattr(f, value)(collect(f, own, shares)) for f, own in own_parts(CASE.family, CASE.rows)
    ]
    np.testing.assert_allclose(found, np.sum(parts, axis=0), rtol=SAME)


@pytest.mark.parametrize("rule", ["mean_log", "log_mean", "mode"])
def test_evidence_is_the_sum_over_the_members(rule: str) -> None:
    shares = random_shares(N, K, 1)
    scores = getattr(CASE.family, rule)(collect(CASE.family, CASE.rows, shares))
    parts = [
        getattr(f, rule)(collect(f, own, shares)).evidence(f.prepare(own))
        for f, own in own_parts(CASE.family, CASE.rows)
    ]
    np.testing.assert_allclose(
        scores.evidence(CASE.family.prepare(CASE.rows)), np.sum(parts, axis=0), rtol=SAME, atol=SAME
    )


def test_divergence_is_the_sum_over_the_members() -> None:
    found = CASE.family.divergence(CASE.family.prepare_seeding(CASE.rows), 3)
    parts = [
        f.divergence(f.prepare_seeding(own), 3) for f, own in own_parts(CASE.family, CASE.rows)
    ]
    np.testing.assert_allclose(found, np.sum(parts, axis=0), rtol=SAME)


def test_bound_of_certain_labels_is_that_of_the_shares_plus_the_members() -> None:
    """One component: the bound is the evidence, which is the sum of the members' own evidences."""
    rows = CASE.rows[:6]
    model = MODELS["finite"](CASE.family, 1.0)
    found = fit(model, BatchVB(max_iter=3, tol=0.0), rows, 1)
    alone = [evidence(oracle, rows[:, list(at)], "finite", 1) for oracle, at in CASE.oracle.members]
    assert found.bound == pytest.approx(sum(alone), abs=slack(found.bound))


def test_bound_is_below_the_enumerated_evidence_and_close_to_it() -> None:
    table = Table(CASE.rows[:6])
    model = MODELS["finite"](CASE.family, 1.0)
    exact = evidence(CASE.oracle, table.rows, "finite", 2)
    bounds = [
        fit(model, BatchVB(max_iter=40, tol=0.0), table, random_start(model, table, 2, s)).bound
        for s in range(4)
    ]
    assert max(bounds) <= exact + slack(exact)
    assert max(bounds) >= exact - 6 * np.log(2)  # one of 2**6 labelings alone says as much


# ---- equalities ----------------------------------------------------------------------------------
ALONE = {
    "gaussian": [0, 1, 5],
    "diagonal": [0, 1, 5],
    "zero-mean": [0, 1, 5],
    "fixed-variance": [0, 1, 5],
    "categorical": [2, 3],
    "multinomial": [2, 3, 4],
    "bernoulli": [3],
    "poisson": [3, 4],
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ALONE)
def test_a_product_of_one_member_is_that_member_bit_for_bit(name: str) -> None:
    rows = np.ascontiguousarray(ROWS[:, ALONE[name]])
    # sweeps of a single family and of columns have kernels of their own, which round differently
    how = {"inference": sb.MemoizedVB(n_batches=3), "init": "k-means++", "random_state": 0}
    one = sb.DPMixture(3, family=name, **how).fit(rows)
    product = sb.Product({name: range(rows.shape[1])})
    two = sb.DPMixture(3, family=product, **how).fit(rows)
    np.testing.assert_array_equal(two.trace_.bound, one.trace_.bound)
    np.testing.assert_array_equal(two.score_samples(rows), one.score_samples(rows))
    np.testing.assert_array_equal(two.predict_proba(rows), one.predict_proba(rows))
    np.testing.assert_array_equal(
        two.sample(7, random_state=1)[0], one.sample(7, random_state=1)[0]
    )
    for (key, value), (expected_key, expected) in zip(
        two.posterior_.items(), one.posterior_.items(), strict=True
    ):
        assert key.startswith(f"{expected_key} of column")
        np.testing.assert_array_equal(value, expected)


def test_columns_of_a_diagonal_gaussian_are_independent_members() -> None:
    rows = np.ascontiguousarray(ROWS[:, [0, 1, 5]])
    engine = sb.BatchVB(max_iter=40, tol=0.0)
    with pytest.warns(sb.ConvergenceWarning):
        one = sb.Mixture(3, family="diagonal", inference=engine, random_state=0).fit(rows)
    product = sb.Product([("diagonal", d) for d in range(3)])
    with pytest.warns(sb.ConvergenceWarning):
        three = sb.Mixture(3, family=product, inference=engine, random_state=0).fit(rows)
    np.testing.assert_allclose(three.trace_.bound, one.trace_.bound, rtol=1e-10)
    np.testing.assert_allclose(three.score_samples(rows), one.score_samples(rows), rtol=1e-9)
    found = np.column_stack([three.posterior_[f"mean of column {d}"] for d in range(3)])
    np.testing.assert_allclose(found, one.means_, rtol=1e-9, atol=1e-9)


def test_the_order_of_columns_and_members_does_not_matter() -> None:
    shuffled = [5, 3, 0, 4, 2, 1]
    where = {old: new for new, old in enumerate(shuffled)}
    listed = [
        (name, [where[c] for c in np.atleast_1d(columns)]) for name, columns in MEMBERS.items()
    ][::-1]
    one = sb.Mixture(3, family=sb.Product(MEMBERS), random_state=0).fit(ROWS)
    other = sb.Mixture(3, family=sb.Product(listed), random_state=0).fit(ROWS[:, shuffled])
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(
        other.posterior_["rate of column 3"], one.posterior_["rate of column 4"], rtol=1e-6
    )


def test_groups_are_found_that_no_member_finds_alone() -> None:
    rows = mixed(300, seed=3)
    z = np.random.default_rng(3).permutation(np.arange(300) % 3)
    model = sb.Mixture(3, family=sb.Product(MEMBERS), random_state=0).fit(rows)
    right = sum(np.bincount(z[model.labels_ == k]).max() for k in range(3))
    assert right >= 298


# ---- engines -------------------------------------------------------------------------------------
def two_alphabets() -> tuple[Any, np.ndarray]:
    """Two categorical members with alphabets of their own, and one with two columns."""
    rng = np.random.default_rng(4)
    rows = np.column_stack([rng.integers(0, v, 60) for v in (3, 7, 2, 5)]).astype(float)
    family = sb.Product([("categorical", 1), (sb.Categorical(0.2), 3), ("categorical", [0, 2])])
    return resolved(family, rows), rows


def test_alphabets_of_members_are_axes_of_their_own() -> None:
    family, rows = two_alphabets()
    fields = family.fields("component")
    assert fields["0.emission"].axes == ("0.symbol", "component")
    assert fields["1.emission"].axes == ("1.symbol", "component")
    counts = Summary(fields, collect(family, rows, random_shares(60, K, 5)))
    assert (counts.size("0.symbol"), counts.size("1.symbol"), counts.size("2.symbol")) == (7, 5, 5)
    turned = Permute("component", (2, 0, 1))(counts)
    np.testing.assert_allclose(
        family.log_marginal(turned), family.log_marginal(counts)[[2, 0, 1]], rtol=SAME
    )


@pytest.mark.parametrize("allocation", MODELS)
def test_bound_never_drops_with_several_alphabets_and_batches(allocation: str) -> None:
    family, rows = two_alphabets()
    engine = MemoizedVB(n_batches=5, max_iter=12, tol=0.0, trace_visits=True)
    trace = fit(MODELS[allocation](family, 1.0), engine, rows, 4).trace
    assert_never_drops(trace.visits)
    assert_never_drops(trace.bound)


def far_rows(offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters of unit width `offset` apart in three real columns, with a truth that tells
    one of them.
    """
    rng = np.random.default_rng(6)
    labels = np.arange(45) % 3
    centers = offset * np.array([[0.0, 0.0, 0.0], [1.0, -0.4, 0.7], [-0.6, 1.0, 0.2]])
    return np.column_stack([centers[labels] + rng.normal(size=(45, 3)), labels == 1]), labels


def far_family(rows: np.ndarray) -> Any:
    family = sb.Product(
        [
            (sb.Gaussian(covariance=1.0), [2, 0]),
            ("bernoulli", 3),
            (sb.DiagonalGaussian(variance=1.0), 1),
        ]
    )
    return resolved(family, rows)


def test_reference_points_reach_the_members() -> None:
    rows, labels = far_rows(1e6)
    family = far_family(rows)
    hard = np.eye(3)[labels]
    empty = Summary(family.fields("component"), family.zeros(3))
    total = Summary(empty.layout, collect(family, rows, hard))
    edit = family.refine(total)
    assert isinstance(edit, Compose)
    moved = edit(total)
    assert (moved["0.anchor"] != 0).any()
    assert (moved["2.anchor"] != 0).any()
    assert set(moved.arrays) == set(total.arrays)
    np.testing.assert_array_equal(moved["1.ones"], total["1.ones"])
    again = {name: array.copy() for name, array in edit(empty).arrays.items()}
    family.mean_log(edit(empty)).collect(family.prepare(rows), np.asfortranarray(hard), again)
    # what the member alone does, tested against 50 digits
    for member, (part, columns) in enumerate(family.members):
        own = rows[:, list(columns)]
        alone = Summary(part.fields("component"), collect(part, own, hard))
        refined = part.refine(alone)
        anew = part.zeros(3) if refined is None else dict(refined(alone.empty()).arrays)
        part.mean_log({n: a.copy() for n, a in anew.items()}).collect(
            part.prepare(own), np.asfortranarray(hard), anew
        )
        for name, array in anew.items():
            np.testing.assert_array_equal(again[f"{member}.{name}"], array, err_msg=name)
    assert family.refine(Summary(empty.layout, again)) is None


@pytest.mark.parametrize("n_batches", [1, 4])
def test_clusters_a_million_widths_apart(n_batches: int) -> None:
    rows, labels = far_rows(1e6)
    model, table = MODELS["dp"](far_family(rows), 1.0), Table(rows)
    engine = MemoizedVB(n_batches=n_batches, max_iter=8, tol=0.0, trace_visits=True)
    found = fit(model, engine, table, start_from(model, table, 0.9 * np.eye(3)[labels] + 0.1 / 3))
    assert_never_drops(found.trace.visits)
    assert (found.counts["0.anchor"] != 0).any()
    np.testing.assert_allclose(found.counts["share"], 15.0, rtol=1e-9)
    # the groups are certain: nothing is left to vary
    exact = mixture.l_dp_closed_form(np.full(3, 15.0), 1.0)
    gaussian, _, diagonal = (member for member, _ in model.family.members)
    full = conjugate.Gaussian(
        gaussian.mean, gaussian.mean_strength, gaussian.dof, (gaussian.dof - 3.0) * np.eye(2)
    )
    one = conjugate.DiagonalGaussian(
        diagonal.mean, diagonal.mean_strength, diagonal.dof, (diagonal.dof - 2.0) * np.ones(1)
    )
    for k in range(3):
        own, w = rows[labels == k], np.ones(15)
        exact += float(
            full.log_marginal_mp(own[:, [2, 0]], w) + one.log_marginal_mp(own[:, [1]], w)
        )
        exact += conjugate.Bernoulli(0.5, 0.5).log_marginal(own[:, [3]], w)
    assert found.bound == pytest.approx(exact, rel=1e-9)  # the promise of the Gaussian families


# ---- edits ---------------------------------------------------------------------------------------
def test_an_edit_within_a_prefix_changes_nothing_else() -> None:
    shares = random_shares(N, K, 7)
    total = Summary(
        CASE.family.fields("component"),
        collect(CASE.family, CASE.rows, shares),
        local_bound=2.0,
        n_units=5.0,
    )
    anchor = np.arange(6.0).reshape(3, 2)
    moved = Within("0.", Reanchor("anchor", anchor))(total)
    np.testing.assert_array_equal(moved["0.anchor"], anchor)
    assert (moved.local_bound, moved.n_units) == (2.0, 5.0)
    for name in set(total.arrays) - {"0.anchor", "0.moments"}:
        assert moved[name] is total[name]
    np.testing.assert_allclose(
        CASE.family.log_marginal(moved), CASE.family.log_marginal(total), rtol=1e-9
    )
    assert Within("0.", Reanchor("anchor", anchor)).rename((4, 7), 8) == (4, 7)
    assert Within("9.", Reanchor("anchor", anchor))(total).arrays == total.arrays


def test_merged_members_with_different_anchors_keep_the_marginal() -> None:
    family, rows = CASE.family, CASE.rows
    shares = np.eye(2)[np.arange(N) % 2]
    start = Summary(
        family.fields("component"),
        {**family.zeros(2), "0.anchor": np.array([[0.0, 0.0], [1.0, -1.0]])},
    )
    out = {name: array.copy() for name, array in start.arrays.items()}
    family.mean_log(start).collect(family.prepare(rows), np.asfortranarray(shares), out)
    merged = Summary(start.layout, out).merge("component", 0, 1)
    expected = family.log_marginal(collect(family, rows, np.ones((N, 1))))
    np.testing.assert_allclose(family.log_marginal(merged), expected, rtol=1e-10)


# ---- what is passed on ---------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Recorder(sb.Poisson):
    """Keeps what it is asked to read."""

    seen: Any = None

    def check_rows(self, rows: Any, first: int = 0) -> None:
        self.seen.append(np.array(rows))

    def prepare(self, rows: Any) -> Any:
        return ("opaque", np.array(rows))


def test_members_get_their_columns_untouched_and_may_prepare_anything() -> None:
    seen: list[np.ndarray] = []
    rows = np.array([[1.0, np.nan, 3.0], [0.0, 5.0, np.nan]])
    family = sb.Product([(Recorder(seen=seen), [2, 1]), ("bernoulli", 0)]).locate(None, 3)
    family.check_rows(rows)
    np.testing.assert_array_equal(seen[0], rows[:, [2, 1]])
    (tag, own), other = family.prepare(rows)
    assert tag == "opaque"
    np.testing.assert_array_equal(own, rows[:, [2, 1]])
    np.testing.assert_array_equal(other, [[1.0, 0.0]])


def test_sparse_rows_are_refused() -> None:
    family = sb.Product({"poisson": [0, 1]})
    rows = sparse.csr_array(np.eye(2))
    with pytest.raises(ValueError, match=r"dense rows; .*toarray"):
        family.check_rows(rows)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        sb.Mixture(1, family=family).fit(rows)


# ---- columns -------------------------------------------------------------------------------------
WRONG = {
    "twice": (
        {"gaussian": [0, 1], "poisson": [1, 2]},
        "column 1 is used twice, by Gaussian and Poisson",
    ),
    "twice in one": (
        {"gaussian": [0, 0], "poisson": [1, 2]},
        "column 0 is used twice, by Gaussian and Gaussian",
    ),
    "left out": ({"gaussian": [1]}, "no family for columns 0, 2: name one, or give rest="),
    "one left out": ({"gaussian": [1, 2]}, "no family for column 0: "),
    "too far": ({"gaussian": [0, 1, 7]}, "reads column 7, but the data have 3 columns, 0 to 2"),
    "negative": ({"gaussian": [0, 1, -1]}, "reads column -1"),
    "a name": (
        {"gaussian": [0, 1], "poisson": "visits"},
        "names the columns 'visits', but the data have no names",
    ),
    "no columns": ({"gaussian": [0, 1, 2], "poisson": []}, "Poisson has no columns"),
    "unknown family": ({"gausian": [0, 1, 2]}, "unknown family 'gausian'"),
    "objects in a dict": ({sb.Gaussian(): [0, 1, 2]}, r"list of \(family, columns\) pairs"),
    "not a list": ("gaussian", "members must be a dict"),
    "nothing": ({}, "members must be a dict"),
    "no pairs": (["gaussian", [0, 1, 2]], "members must be a dict"),
    "a mask": ({"gaussian": [True, True, False]}, "names or positions; got True"),
    "a fraction": ({"gaussian": [0.0, 1, 2]}, r"names or positions; got 0\.0"),
    "used up": ({"gaussian": (c for c in range(3))}, "names or positions; got <generator"),
    "a number": ({"gaussian": 1.5}, r"names or positions; got 1\.5"),
    "nested": ([(sb.Product({"gaussian": 0}), 0)], "cannot be a Product"),
}


@pytest.mark.parametrize("case", WRONG)
def test_members_that_do_not_share_out_the_columns_are_refused(case: str) -> None:
    members, message = WRONG[case]
    rows = np.ones((5, 3)) * np.arange(5)[:, None]
    with pytest.raises(ValueError, match=message):
        sb.Mixture(1, family=sb.Product(members)).fit(rows)


def test_rest_takes_all_other_columns() -> None:
    family = sb.Product(
        {"categorical": 2, "bernoulli": 3, "poisson": 4}, rest=sb.DiagonalGaussian(dof=5.0)
    )
    model = sb.Mixture(3, family=family, random_state=0).fit(ROWS)
    member, columns = model.family_.members[-1]
    assert (member.dof, columns) == (5.0, (0, 1, 5))
    assert "mean of columns 0, 1, 5" in model.posterior_
    same = sb.Product([*family.members.items(), (sb.DiagonalGaussian(dof=5.0), [0, 1, 5])])
    assert sb.Mixture(3, family=same, random_state=0).fit(ROWS).lower_bound_ == model.lower_bound_
    nothing_left = sb.Product(MEMBERS, rest="gaussian")
    assert len(sb.Mixture(3, family=nothing_left, random_state=0).fit(ROWS).family_.members) == 5


def test_members_name_the_columns_of_the_table_in_errors_and_warnings() -> None:
    bad = ROWS.copy()
    bad[7, 3] = 2.0
    family = sb.Product(MEMBERS)
    with pytest.raises(ValueError, match=r"row 7, column 3 is 2\.0; Bernoulli"):
        sb.Mixture(2, family=family).fit(bad)
    with pytest.raises(ValueError, match=r"row 7, column 3 is 2\.0; Bernoulli"):
        sb.Mixture(2, family=family, random_state=0).fit(ROWS).predict(bad)
    flat = ROWS.copy()
    flat[:, 5] = 3.0
    with pytest.warns(sb.DataWarning, match="column 5: constant"):
        sb.Mixture(2, family=family, random_state=0).fit(flat)
    with pytest.raises(
        ValueError,
        match=r"Gaussian of columns 1, 0: mean has shape \(3,\) but the "
        r"data have 2 columns",
    ):
        sb.Mixture(
            2, family=sb.Product([(sb.Gaussian(mean=[0, 1, 2]), [1, 0])], rest="diagonal")
        ).fit(ROWS)
    with pytest.raises(
        ValueError,
        match=r"column 2 is 2\.0; symbols are whole numbers below 2, -1 "
        r"for missing$",
    ):
        sb.Mixture(2, family=sb.Product([(sb.Categorical(n_symbols=2), [2])], rest="diagonal")).fit(
            ROWS
        )
    with pytest.raises(
        ValueError, match="Categorical of column 2: column 2 has symbol 2 but n_symbols=2"
    ):
        resolved(sb.Product([(sb.Categorical(n_symbols=2), [2])], rest="diagonal"), ROWS)


# ---- as a parameter ------------------------------------------------------------------------------
def test_clones_are_fresh_and_equal() -> None:
    model = sb.Mixture(
        2,
        family=sb.Product([(sb.Gaussian(dof=9.0), [0, 1]), ("poisson", 4)], rest="diagonal"),
        random_state=0,
    )
    model.fit(np.abs(np.round(ROWS)))
    fresh = clone(model)
    assert repr(fresh) == repr(model)
    assert fresh.family.members[0][0] is not model.family.members[0][0]
    assert fresh.fit(np.abs(np.round(ROWS))).lower_bound_ == model.lower_bound_
    assert clone(sb.Product(MEMBERS)).members == MEMBERS


def test_nested_parameters_are_listed_and_set() -> None:
    family = sb.Product([(sb.Gaussian(dof=9.0), [0, 1]), ("poisson", 4)], rest=sb.Bernoulli())
    params = sb.Mixture(family=family).get_params()
    assert params["family__0__dof"] == 9.0
    assert params["family__rest__on"] == 0.5
    assert not any(key.startswith("family__1__") for key in params)
    sb.Mixture(family=family).set_params(family__0__dof=11.0, family__rest__on=0.25)
    assert (family.members[0][0].dof, family.rest.on) == (11.0, 0.25)
    for key in ("1__rate", "7__dof", "0"):
        with pytest.raises(ValueError, match=f"no parameter '{key}'.*\\['0'\\]"):
            family.set_params(**{key: 1.0})
    with pytest.raises(ValueError, match="no parameter 'colour'"):
        family.set_params(colour=1)


def test_grid_search_over_members_and_their_priors() -> None:
    given = sb.Product([(sb.Gaussian(), [0, 1, 5]), ("categorical", [2, 3]), ("poisson", 4)])
    other = sb.Product({"diagonal": [0, 1, 5], "categorical": [2, 3], "poisson": 4})
    model = sb.Mixture(3, family=given, random_state=0)
    grid = [{"family__0__mean_strength": [0.01, 5.0]}, {"family": [other]}]
    found = GridSearchCV(model, grid, cv=2, error_score="raise").fit(ROWS)
    scores = found.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) == 3
    assert given.members[0][0].mean_strength == 0.01  # what was given is left alone


def test_files_and_resumed_fits(tmp_path: Any) -> None:
    still = sb.MemoizedVB(moves=None)
    for members in (
        MEMBERS,
        [
            (sb.Gaussian(mean=np.zeros(2)), range(2)),
            ("categorical", np.array([2])),
            ("diagonal", 5),
        ],
    ):
        family = sb.Product(members, rest="poisson")
        model = sb.DPMixture(3, family=family, inference=still, random_state=0).fit(ROWS)
        model.save(tmp_path / "m.stickbreak")
        loaded = sb.load(tmp_path / "m.stickbreak")
        np.testing.assert_array_equal(loaded.score_samples(ROWS), model.score_samples(ROWS))
        assert clone(loaded).fit(ROWS).lower_bound_ == model.lower_bound_
    engine = sb.MemoizedVB(
        n_batches=3, checkpoint=tmp_path / "c", checkpoint_every=0.0, max_iter=30
    )
    whole = sb.Mixture(3, family=sb.Product(MEMBERS), inference=engine, random_state=0).fit(ROWS)
    assert sb.resume(tmp_path / "c", ROWS).lower_bound_ == whole.lower_bound_


def test_a_file_whose_members_overlap_is_refused(tmp_path: Any) -> None:
    from stickbreak.persist import read_file, write_file

    path = tmp_path / "m.stickbreak"
    rows = ROWS[:, [4, 2, 2, 3]]
    sb.Mixture(
        2, family=sb.Product({"poisson": [0, 1], "categorical": [2, 3]}), random_state=0
    ).fit(rows).save(path)
    for columns in ([0, 0], [0, 2], [0, 9], [0, "a"], 0):
        header, arrays = read_file(path, "model")
        header["fitted"]["family"]["params"]["members"][0][1] = columns
        write_file(tmp_path / "bad.stickbreak", "model", header, arrays)
        with pytest.raises(sb.ModelFileError, match="damaged"):
            sb.load(tmp_path / "bad.stickbreak")


def test_columns_on_disk_are_read_in_batches(tmp_path: Any) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    engine = sb.MemoizedVB(n_batches=2)
    disk = sb.Mixture(3, family=sb.Product(MEMBERS), inference=engine, random_state=0).fit(
        tmp_path / "rows.npy"
    )
    memory = sb.Mixture(3, family=sb.Product(MEMBERS), inference=engine, random_state=0).fit(ROWS)
    assert disk.lower_bound_ == memory.lower_bound_
    np.testing.assert_array_equal(disk.labels_, memory.labels_)


def test_every_column_has_a_reader() -> None:
    readers = sb.Product(MEMBERS).readers(6)
    assert [type(r).__name__ for r in readers] == ["Gaussian"] * 2 + [
        "Categorical",
        "Bernoulli",
        "Poisson",
        "DiagonalGaussian",
    ]
    assert [reader.max_categories for reader in readers[3:]] == [2, 0, 0]
    family = sb.Categorical()
    assert family.readers(2) == (family, family)
