"""What does not pay on a sample is recorded, and callbacks are told before it is looked at."""

import numpy as np

import stickbreak as sb
from stickbreak.inference import MoveRecord

X = np.random.default_rng(0).normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 150, 0)


def fit(**how):
    told = []

    class Watch(sb.Callback):
        def on_trial(self, kind, ids, n_components):
            told.append((kind, ids))

    moves = [sb.Birth(min_misfit=0), sb.Delete()]
    engine = sb.MemoizedVB(moves=moves, max_iter=100, callbacks=[Watch()])
    return sb.DPMixture(2, inference=engine, random_state=0, **how).fit(X), told


def test_births_and_deletes_that_do_not_pay_on_a_sample_are_recorded_with_their_cost():
    model, told = fit()
    looks = [m for m in model.trace_.moves if m.on_sample]
    assert {m.kind for m in looks} == {"birth", "delete"}
    for look in looks:
        assert (look.kind, look.parents) in told
        assert look.gain <= 0.0
        assert 0 < look.n_units <= len(X)
        assert look.seconds > 0.0
        assert not look.is_accepted
    judged = model.trace_.judged
    assert len(told) == len(looks) + sum(m.kind != "merge" for m in judged)
    assert all(m.seconds > 0.0 for m in judged)
    assert f"; {len(looks)} more did not pay on a sample" in model.explain_moves()


def test_records_of_looks_are_the_same_for_two_threads_and_in_files(tmp_path):
    one, two = (fit(n_jobs=n)[0] for n in (1, 2))
    assert one.trace_.moves == two.trace_.moves
    one.set_params(inference=None).save(tmp_path / "model.sb")
    assert sb.load(tmp_path / "model.sb").trace_.moves == one.trace_.moves
    before = dict.fromkeys(("lap", "expected", "gain", "is_accepted"), 0)
    older = {**before, "kind": "birth", "parents": [0], "children": []}
    assert not MoveRecord.from_dict(older).on_sample
