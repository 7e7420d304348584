"""Moves as users meet them: defaults, words, files, labels, weights, settings that make no
sense.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from estimator_cases import CASES, N_GROUPS, NAMES, blobs
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb
from stickbreak.inference import MoveRecord
from stickbreak.moves import explain

MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
X = blobs(200, n_groups=4, seed=2)


@pytest.fixture(scope="module")
def fitted() -> sb.DPMixture:
    """From two components, one of which must be split."""
    return sb.DPMixture(2, inference=sb.MemoizedVB(n_batches=2, moves=MOVES), random_state=0).fit(X)


# ---- defaults ------------------------------------------------------------------------------------
def test_the_default_begins_with_one_component_and_has_all_moves():
    model = sb.DPMixture()
    assert model.n_components == 1
    engine = model._engine(False)
    assert isinstance(engine, sb.MemoizedVB)
    assert [move.kind for move in engine.moves] == ["birth", "merge", "delete"]
    assert sb.Mixture()._engine(False).moves == ()


CANNOT = {"stochastic": sb.StochasticVB, "em": sb.EM, "hard-em": sb.HardEM, "gibbs": sb.Gibbs}
CAN = {
    "batch": "batch",
    "memoized": "memoized",
    "max_iter": sb.MemoizedVB(max_iter=500),
    "tol": sb.BatchVB(tol=1e-8),
}
TWO = blobs(100, n_groups=2, seed=0)
WORDS = [["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]] * 20


@pytest.mark.few(3)
@pytest.mark.parametrize("inference", CAN.values(), ids=CAN)
@pytest.mark.parametrize(
    ("cls", "data"), [(sb.DPMixture, TWO), (sb.HDPTopicModel, WORDS)], ids=["rows", "documents"]
)
def test_an_engine_by_name_or_with_other_settings_keeps_the_moves(cls, data, inference):
    assert cls(inference=inference, random_state=0).fit(data).n_components_ == 2


@pytest.mark.parametrize("cls", [sb.DPMixture, sb.HDPTopicModel, sb.HDPHMM])
def test_laps_and_tolerance_of_the_estimator_go_before_those_of_the_engine(cls):
    model = cls(inference=sb.MemoizedVB(max_iter=7, n_batches=2), max_iter=9, tol=1e-3)
    engine = model._engine(False)
    assert (engine.max_iter, engine.tol, engine.n_batches) == (9, 1e-3, 2)
    kinds = [move.kind for move in engine.moves if move.kind != "loosen"]
    assert kinds == ["birth", "merge", "delete"]
    assert model.inference.max_iter == 7  # the argument is left alone
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 1; got 0"):
        cls(max_iter=0).fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="tol must be zero or positive; got -1"):
        cls(tol=-1).fit(np.zeros((3, 2)))


@pytest.mark.parametrize("moves", [None, ()])
@pytest.mark.parametrize("cls", [sb.BatchVB, sb.MemoizedVB])
def test_no_moves_are_made_if_none_are_wanted(cls, moves):
    engine = sb.DPMixture(inference=cls(moves=moves))._engine(False)
    assert not engine.mover().moves
    assert not sb.Mixture(inference=cls())._engine(False).mover().moves
    assert not sb.HDPHMM(root="point")._engine(False).mover().moves


@pytest.mark.parametrize("name", CANNOT)
def test_an_engine_without_moves_begins_at_a_truncation_and_says_so(name):
    engine = CANNOT[name](max_iter=20)
    with pytest.warns(sb.StickbreakWarning) as caught:
        model = sb.DPMixture(inference=engine, random_state=0).fit(TWO)
    text = str(caught[0].message)
    assert text.startswith(f"{type(engine).__name__} has no moves and cannot change the number")
    assert "begins with 25 instead of n_components=1" in text
    assert caught[0].filename == __file__
    assert (model.n_components_, model.n_components) == (25, 1)
    assert 2 <= model.n_effective_ < 25
    # as many as there are rows, and no word if the number was chosen
    with pytest.warns(sb.StickbreakWarning, match="begins with 4 instead"):
        sb.DPMixture(inference=engine, random_state=0).fit(TWO[:4])
    chosen = sb.DPMixture(3, inference=engine, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        assert chosen.fit(TWO).n_components_ == 3


def test_steps_of_stochastic_inference_begin_at_a_truncation_too():
    for cls, data in ((sb.DPMixture, TWO), (sb.HDPTopicModel, WORDS)):
        model = cls(random_state=0)
        with pytest.warns(sb.StickbreakWarning, match="A step of stochastic inference cannot"):
            model.partial_fit(data, total_samples=1e4)
        assert model.n_components_ == 25
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.partial_fit(data, total_samples=1e4)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_family_finds_its_groups(name):
    case = CASES[name]
    model = sb.DPMixture(family=name, random_state=0).fit(case.rows)
    assert (model.counts_ > 2).sum() == N_GROUPS
    # a single odd row may be worth a component: the bound says so
    assert model.n_components_ <= N_GROUPS + 1
    assert adjusted_rand_score(case.groups, model.labels_) > (0.6 if name == "zero-mean" else 0.95)
    assert model.converged_
    np.testing.assert_array_equal(model.labels_, model.predict(case.rows))
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-12)
    assert model.counts_.sum() == pytest.approx(len(case.rows), rel=1e-12)


@pytest.mark.slow
def test_wide_sparse_counts_find_their_groups(tmp_path):
    rows = CASES["multinomial"].rows
    # batches and samples bring vocabularies of their own
    wide = np.hstack([rows, np.zeros((len(rows), 40), dtype=int)])
    engine = sb.MemoizedVB(n_batches=3, moves=MOVES)
    one, two = (
        sb.DPMixture(family="multinomial", inference=engine, random_state=0).fit(f(wide))
        for f in (np.asarray, sparse.csr_array)
    )
    assert one.n_components_ == two.n_components_ == N_GROUPS
    assert one.lower_bound_ == pytest.approx(two.lower_bound_, rel=1e-9)


def test_data_on_disk_equal_data_in_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    memory, disk = (sb.DPMixture(random_state=0).fit(rows) for rows in (X, tmp_path / "rows.npy"))
    assert memory.lower_bound_ == disk.lower_bound_
    assert memory.trace_.moves == disk.trace_.moves
    np.testing.assert_array_equal(memory.labels_, disk.labels_)


@pytest.mark.slow
def test_mixed_columns_find_their_groups():
    groups = np.arange(200) % 2
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [
            rng.normal(6.0 * groups),
            rng.random(200) < 0.1 + 0.8 * groups,
            rng.poisson(3 + 20 * groups),
        ]
    )
    family = sb.Product([(sb.DiagonalGaussian(), [0]), (sb.Bernoulli(), [1]), (sb.Poisson(), [2])])
    model = sb.DPMixture(family=family, random_state=0).fit(rows)
    assert model.n_components_ == 2
    assert adjusted_rand_score(groups, model.labels_) > 0.95


# ---- words and files -----------------------------------------------------------------------------
def test_explain_moves_says_what_the_trace_says(fitted):
    text = fitted.explain_moves()
    records = fitted.trace_.judged
    assert records
    for kind in {record.kind for record in records}:
        mine = [r for r in records if r.kind == kind]
        kept = [r for r in mine if r.is_accepted]
        assert (
            f"{kind}: {len(mine)} tried on all data, {len(kept)} accepted, "
            f"{sum(r.gain for r in kept):+.2f} nats" in text
        )
    accepted = [r for r in records if r.is_accepted]
    assert accepted
    for record in accepted:
        assert re.search(
            rf"lap {record.lap}: {record.kind}, "
            rf".*\({re.escape(f'{record.gain:+.2f}')} nats\)",
            text,
        )
    ends = text.splitlines()[-1]
    assert ends.startswith(f"At the end: {fitted.n_components_} components")
    assert [
        int(i) for i in re.findall(r"\d+", ends.split("ids")[1])
    ] == fitted.component_ids_.tolist()


def test_explain_moves_without_moves():
    assert "No move was tried" in sb.Mixture(2, random_state=0).fit(X).explain_moves()
    with pytest.raises(ValueError, match="fit"):
        sb.DPMixture().explain_moves()


def test_explain_moves_of_one_component_that_stays():
    rows = np.random.default_rng(0).normal(size=(100, 2))
    model = sb.DPMixture(random_state=0).fit(rows)
    assert model.n_components_ == 1
    assert not any(record.is_accepted for record in model.trace_.moves)
    assert ("no move was tried" in model.explain_moves().lower()) == (model.trace_.judged == [])


def test_words_of_every_kind_of_move():
    records = [
        MoveRecord(2, "birth", (0,), (1, 2, 3), 9.0, 10.5, True),
        MoveRecord(3, "merge", (1, 3), (1,), 2.0, 1.25, True),
        MoveRecord(3, "merge", (1, 2), (1,), 2.0, -1.0, False),
        MoveRecord(4, "delete", (2, 1), (1,), 1.0, 0.5, True),
        MoveRecord(5, "birth", (1,), (), -1.0, -1.0, False, on_sample=True),
    ]
    assert explain(records, [1]).splitlines() == [
        "birth: 1 tried on all data, 1 accepted, +10.50 nats",
        "merge: 2 tried on all data, 1 accepted, +1.25 nats",
        "delete: 1 tried on all data, 1 accepted, +0.50 nats",
        "lap 2: birth, id 0 became ids 1, 2 and 3 (+10.50 nats)",
        "lap 3: merge, ids 1 and 3 joined into id 1 (+1.25 nats)",
        "lap 4: delete, id 2 was shared out among id 1 (+0.50 nats)",
        "At the end: 1 component, 0, with id 1.",
    ]


def test_files_keep_moves_and_their_settings(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again = sb.load(tmp_path / "m")
    assert again.trace_.moves == fitted.trace_.moves
    assert all(isinstance(record, MoveRecord) for record in again.trace_.moves)
    assert again.explain_moves() == fitted.explain_moves()
    assert repr(again.inference) == repr(fitted.inference)
    assert again._fitted.next_id == fitted._fitted.next_id
    np.testing.assert_array_equal(again.component_ids_, fitted.component_ids_)
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))


def test_an_interrupted_default_fit_resumes_from_its_file(tmp_path):
    class Stop(sb.Callback):
        def on_step(self, info):
            if info.step == 5:
                raise RuntimeError("stopped")

    def make(*callbacks):
        engine = sb.MemoizedVB(
            n_batches=3, moves=(sb.Birth(n_newborn=5), sb.Merge(), sb.Delete()),
            checkpoint=tmp_path / "c", checkpoint_every=0.0,
            callbacks=callbacks,
        )  # fmt: skip
        return sb.DPMixture(inference=engine, random_state=0)

    with pytest.raises(RuntimeError, match="stopped"):
        make(Stop()).fit(X)
    resumed = sb.resume(tmp_path / "c", X)
    whole = make().fit(X)
    assert resumed.lower_bound_ == whole.lower_bound_
    assert resumed.trace_.moves == whole.trace_.moves
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    other = sb.DPMixture(
        inference=sb.MemoizedVB(n_batches=3, moves=MOVES, checkpoint=tmp_path / "c"), random_state=0
    )
    with pytest.raises(sb.CheckpointError, match="n_newborn"):
        other.resume(X)


def test_ids_are_permanent(fitted):
    """Follow the records: what is alive at the end are the ids of the model, and none is used
    twice.
    """
    alive, born = {0, 1}, {0, 1}
    for record in fitted.trace_.moves:
        if record.is_accepted:
            assert alive.issuperset(record.parents)
            fresh = set(record.children) - alive
            assert fresh.isdisjoint(born)
            born |= fresh
            alive = (alive - set(record.parents)) | set(record.children)
    assert alive == set(fitted.component_ids_.tolist())
    assert fitted._fitted.next_id == max(born) + 1


def test_a_warm_start_goes_on_with_ids_and_bound(fitted):
    model = sb.DPMixture(random_state=0, warm_start=True).fit(X[:100])
    first = model.n_components_, model._fitted.next_id
    model.fit(X)
    assert model.n_components_ == 4
    assert model._fitted.next_id >= first[1]
    bound = model.lower_bound_
    model.fit(X)
    assert model.lower_bound_ >= bound - 1e-10 * abs(bound)


# ---- labels and weights --------------------------------------------------------------------------
def labelled(n_labels: int, each: int = 8):
    """Rows of five groups; a few rows of the first groups are labelled with their group."""
    rng = np.random.default_rng(0)
    groups = np.arange(300) % 5
    rows = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])[groups] + rng.normal(
        size=(300, 2)
    )
    labels = np.full(300, -1)
    for g in range(n_labels):
        labels[np.flatnonzero(groups == g)[:each]] = g
    return rows, groups, labels


@pytest.mark.parametrize(("n_labels", "n_components"), [(1, 1), (1, 4), (2, 2), (2, 5), (3, 8)])
def test_labels_keep_their_components(n_labels, n_components):
    rows, _, labels = labelled(n_labels)
    model = sb.DPMixture(
        n_components, random_state=0, inference=sb.MemoizedVB(n_batches=3, moves=MOVES)
    ).fit(rows, labels=labels)
    assert set(range(n_labels)) <= set(model.component_ids_.tolist())
    found = model.component_ids_[model.labels_]
    np.testing.assert_array_equal(found[labels >= 0], labels[labels >= 0])
    for record in model.trace_.moves:
        assert set(record.parents).isdisjoint(range(n_labels))


def test_labels_and_moves_find_the_other_groups():
    """Two groups are named; the three others, far away, share a free component, which is split."""
    rng = np.random.default_rng(0)
    groups = np.arange(300) % 5
    rows = np.array([[0, 0], [10, 0], [50, 0], [60, 0], [50, 10]])[groups] + rng.normal(
        size=(300, 2)
    )
    labels = np.where(groups < 2, groups, -1)
    model = sb.DPMixture(3, family=sb.Gaussian(covariance=1.0), random_state=0).fit(
        rows, labels=labels
    )
    assert model.n_components_ == 5
    assert adjusted_rand_score(groups, model.labels_) > 0.99
    np.testing.assert_array_equal(
        model.component_ids_[model.labels_][groups < 2], groups[groups < 2]
    )


def test_unknown_labels_change_nothing():
    plain, unknown = (
        sb.DPMixture(random_state=0).fit(X),
        sb.DPMixture(random_state=0).fit(X, labels=np.full(len(X), -1)),
    )
    assert plain.lower_bound_ == unknown.lower_bound_
    assert plain.trace_.moves == unknown.trace_.moves


@pytest.mark.parametrize("name", ["gaussian", "multinomial"])
def test_a_weight_is_a_repeat_count(name):
    """Starts draw other rows, but clear groups are found in both ways, with the same bound."""
    case = CASES[name]
    repeats = np.random.default_rng(5).integers(0, 4, len(case.rows))
    by_weight = sb.DPMixture(family=name, random_state=0).fit(case.rows, sample_weight=repeats)
    by_repeat = sb.DPMixture(family=name, random_state=0).fit(np.repeat(case.rows, repeats, axis=0))
    assert by_weight.n_components_ == by_repeat.n_components_ == N_GROUPS
    assert by_weight.lower_bound_ == pytest.approx(by_repeat.lower_bound_, rel=1e-5)
    assert by_weight.counts_.sum() == pytest.approx(repeats.sum(), rel=1e-12)
    assert by_weight.counts_ == pytest.approx(by_repeat.counts_, abs=0.05)


def test_weights_of_a_half_are_half_rows():
    doubled = np.repeat(X, 2, axis=0)
    model = sb.DPMixture(random_state=0).fit(doubled, sample_weight=np.full(len(doubled), 0.5))
    assert model.lower_bound_ == pytest.approx(
        sb.DPMixture(random_state=0).fit(X).lower_bound_, rel=1e-6
    )


# ---- settings ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "moves",
    [
        (sb.Birth(n_newborn=0),),
        (sb.Birth(max_targets=1.5),),
        (sb.Birth(min_rows=-1),),
        (sb.Birth(n_passes="many"),),
        (sb.Merge(max_pairs=0),),
        (sb.Merge(start=0),),
        (sb.Delete(n_absorbers=0),),
        (sb.Delete(n_passes=0),),
        ("birth",),
        (sb.Birth,),
        "birth",
        sb.Birth(),
        5,
    ],
    ids=repr,
)
def test_moves_that_make_no_sense_are_refused(moves):
    with pytest.raises(ValueError, match=r"moves|must be|at least|whole"):
        sb.DPMixture(inference=sb.MemoizedVB(moves=moves)).fit(X)


def test_moves_have_parameters_and_are_cloned():
    model = sb.DPMixture(
        inference=sb.MemoizedVB(
            moves=(sb.Birth(n_newborn=3), sb.Merge(max_pairs=4), sb.Delete(n_passes=7))
        )
    )
    assert repr(sb.Birth(n_newborn=3)) == "Birth(n_newborn=3)"
    copy = clone(model)
    assert [m.get_params() for m in copy.inference.moves] == [
        m.get_params() for m in model.inference.moves
    ]
    assert repr(copy) == repr(model)
    found = copy.set_params(random_state=0).fit(X)
    assert found.n_components_ == 4


@pytest.mark.parametrize("move", MOVES, ids=repr)
def test_each_move_works_alone(move):
    model = sb.DPMixture(
        1 if move.kind == "birth" else 8, inference=sb.BatchVB(moves=(move,)), random_state=0
    ).fit(X)
    assert {record.kind for record in model.trace_.moves} <= {move.kind}
    assert np.diff(model.trace_.bound).min() >= -1e-10 * abs(model.lower_bound_)
    assert model.n_effective_ >= 4


def test_moves_also_serve_finite_mixtures():
    """A Mixture whose engine has moves changes its number of components; attributes follow."""
    model = sb.Mixture(7, inference=sb.BatchVB(moves=MOVES), random_state=0).fit(X)
    assert (
        model.n_components_
        == len(model.component_ids_)
        == len(model.weights_)
        == model.means_.shape[0]
    )
    assert np.diff(model.trace_.bound).min() >= -1e-10 * abs(model.lower_bound_)


def test_one_row_and_equal_rows_are_no_trouble():
    with pytest.warns(sb.DataWarning, match="constant"):
        one = sb.DPMixture(random_state=0).fit(np.ones((1, 2)))
    with pytest.warns(sb.DataWarning, match="constant"):
        same = sb.DPMixture(random_state=0).fit(np.ones((40, 2)))
    assert (one.n_components_, same.n_components_) == (1, 1)
    assert np.isfinite([one.lower_bound_, same.lower_bound_]).all()


# ---- streams -------------------------------------------------------------------------------------
@pytest.mark.slow  # `test_streams.py` has more of them
@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
def test_a_stream_gives_birth_to_clusters_as_they_appear(family):
    """One more cluster every second call: each is found, and those that were there keep their ids
    and their rows.
    """
    rng = np.random.default_rng(0)
    places = np.array([[-8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [0.0, -8.0]])
    model, ids, seen = sb.DPMixture(family=family, random_state=0), set(), np.zeros(4)
    for call in range(8):
        labels = rng.integers(1 + call // 2, size=300)
        seen += np.bincount(labels, minlength=4)
        model.partial_fit(places[labels] + rng.normal(size=(300, 2)))
        assert ids <= set(model.component_ids_.tolist())
        ids = set(model.component_ids_.tolist())
        assert model.n_components_ == 1 + call // 2
    np.testing.assert_allclose(np.sort(model.counts_), np.sort(seen), atol=1.0)
    assert sum(m.kind == "birth" and m.is_accepted for m in model.trace_.moves) == 3
