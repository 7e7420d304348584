"""Files, checkpoints and callbacks at their edges: refused or survived, never wrong."""

import os
import stat
import warnings

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.estimators.encoding import PARTS, register_part
from stickbreak.families.base import BaseFamily
from stickbreak.persist import read_file, write_file
from stickbreak.stats import Reanchor, Summary

X = np.random.default_rng(0).poisson(4.0, (60, 2)).astype(float)


class StopAt(sb.Callback):
    """Ends or interrupts a fit at a lap."""

    def __init__(self, lap, error):
        self.lap, self.error = lap, error

    def on_lap(self, record):
        if record.lap == self.lap:
            raise self.error


def test_a_file_whose_columns_do_not_fit_its_family_is_refused(tmp_path):
    path = tmp_path / "m.stickbreak"
    sb.Mixture(2, family="poisson", random_state=0).fit(X).save(path)
    header, arrays = read_file(path, "model")
    header["fitted"]["n_features_in"] = 6
    write_file(path, "model", header, arrays)
    with pytest.raises(sb.ModelFileError, match="6 columns, its family has 2"):
        sb.load(path)


def test_a_continued_warm_start_takes_no_checkpoint(tmp_path):
    engine = sb.BatchVB(checkpoint=tmp_path / "c", max_iter=3, tol=0.0)
    model = sb.Mixture(2, family="poisson", random_state=0, warm_start=True, inference="batch").fit(
        X
    )
    with pytest.raises(ValueError, match="cannot save a warm start"):
        model.set_params(inference=engine).fit(X)


@pytest.mark.parametrize("spoil", ["arguments", "params", "inference", "extra"])
def test_a_damaged_checkpoint_gives_one_clear_error(tmp_path, spoil):
    path = tmp_path / "c"
    engine = sb.BatchVB(
        checkpoint=path,
        checkpoint_every=0.0,
        max_iter=5,
        tol=0.0,
        callbacks=(StopAt(3, KeyboardInterrupt()),),
    )
    with pytest.raises(KeyboardInterrupt):
        sb.Mixture(2, family="poisson", random_state=0, inference=engine).fit(X)
    header, arrays = read_file(path, "checkpoint")
    arguments = header["settings"]["arguments"]
    if spoil == "arguments":
        del header["settings"]["arguments"]
    elif spoil == "params":
        arguments["params"] = "x"
    elif spoil == "inference":
        arguments["params"]["inference"] = None
    else:
        arguments["params"]["surprise"] = 1
    write_file(path, "checkpoint", header, arrays)
    with pytest.raises(sb.CheckpointError, match="damaged"):
        sb.resume(path, X)


def test_a_callback_that_ends_the_fit_does_not_make_it_converged():
    engine = sb.BatchVB(tol=0.0, callbacks=(StopAt(2, StopIteration()),))
    model = sb.Mixture(2, family="poisson", random_state=0, inference=engine).fit(X)
    assert model.n_iter_ == 2
    assert not model.converged_


def test_a_checkpoint_that_cannot_be_written_does_not_cost_the_fit(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stickbreak.inference.checkpoints.write_file", refuse)
    engine = sb.BatchVB(checkpoint=tmp_path / "c", checkpoint_every=0.0, tol=1e9)
    with pytest.warns(sb.StickbreakWarning, match="No space left"):
        model = sb.Mixture(2, family="poisson", random_state=0, inference=engine).fit(X)
    assert np.isfinite(model.lower_bound_)


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")
def test_saving_keeps_modes_and_follows_links(tmp_path):
    model = sb.Mixture(2, family="poisson", random_state=0).fit(X)
    real, link = tmp_path / "real.stickbreak", tmp_path / "link.stickbreak"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    model.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sb.load(real).lower_bound_ == model.lower_bound_
    with pytest.raises(FileNotFoundError, match="no such folder"):
        model.save(tmp_path / "missing" / "m.stickbreak")


class MyMixture(sb.Mixture):
    """Not known to files."""


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="MyMixture is not known to files"):
        MyMixture(2, family="poisson", random_state=0).fit(X).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_between_starts_keeps_the_best_so_far(monkeypatch):
    from stickbreak.estimators import mixture_fits

    real, calls = mixture_fits.from_plusplus, []

    def interrupted(*arguments, **settings):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    monkeypatch.setattr(mixture_fits, "from_plusplus", interrupted)
    model = sb.Mixture(2, family="poisson", init="k-means++", random_state=0, n_init=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.predict(X).shape == (60,)


def test_moments_about_other_points_are_shifted_before_they_are_added():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    from stickbreak.data import Table, measure

    family = sb.Gaussian().resolve(measure(Table(rows)))
    counts = family.zeros(2)
    family.mean_log(counts).collect(family.prepare(rows), np.full((30, 2), 0.5), counts)
    one = Summary(family.fields("component"), counts)
    other = Reanchor("anchor", np.array([[1.0, -2.0], [0.5, 3.0]]))(one)
    np.testing.assert_allclose(
        family.log_marginal(one + other), family.log_marginal(one + one), rtol=1e-12
    )


def test_submodules_are_found_when_first_used():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sb.checks.check_family.__name__ == "check_family"


class Narrow(sb.Poisson):
    """Does not say how many columns it reads."""

    n_columns = BaseFamily.n_columns


def test_a_family_without_its_number_of_columns_is_not_saved(tmp_path):
    register_part(Narrow)
    model = sb.Mixture(2, family=Narrow(), random_state=0).fit(X)
    with pytest.raises(sb.ModelFileError, match="Narrow has no property `n_columns`"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_family_without_its_number_of_columns_is_refused_in_one_sentence(tmp_path):
    register_part(type("Wide", (sb.Poisson,), {}))
    family = PARTS["Wide"]()
    sb.Mixture(2, family=family, random_state=0).fit(X).save(tmp_path / "m")
    register_part(type("Wide", (sb.Poisson,), {"n_columns": BaseFamily.n_columns}))
    with pytest.raises(sb.ModelFileError, match="Wide has no property `n_columns`"):
        sb.load(tmp_path / "m")
