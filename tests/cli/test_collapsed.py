"""`show` and `explain_moves` of collapsed fits: what they ended by, which merges they tried."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.running import command  # noqa: F401

import stickbreak as sb

RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(m, 1.0, (60, 2)) for m in (-4.0, 4.0)])
TEXTS = [["sun", "sea", "sand"] * 3] * 6 + [["law", "court", "judge"] * 3] * 6
SYMBOLS = [np.repeat(RNG.integers(0, 3, 12), 5) for _ in range(8)]
FITS = {
    "row": (sb.Mixture(2, inference="collapsed"), ROWS),
    "word": (sb.LatentDirichletAllocation(2, inference="collapsed"), TEXTS),
}


@pytest.mark.parametrize("unit", FITS)
def test_show_tells_what_a_collapsed_fit_ended_by(unit, command):  # noqa: F811
    model, data = FITS[unit]
    model.set_params(random_state=0).fit(data).save("m.stickbreak")
    lines = command("show", "m.stickbreak").out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("bound"))
    value = model.trace_.log_z[-1]
    assert lines[at].endswith(f"nats, converged after {model.n_iter_} laps")
    assert lines[at + 1] == (
        f"leave-one-out log predictive {value:.4f} nats per {unit}, by which the fit ends"
    )
    assert json.loads(command("show", "m.stickbreak", "--json").out)["log_predictive"] == value
    assert "the engine has none" in model.explain_moves()


@pytest.mark.parametrize("inference", ["batch", "em", "stochastic-collapsed", "collapsed-gibbs"])
def test_other_fits_have_no_such_line(inference, command):  # noqa: F811
    tol = 0.0 if inference == "collapsed-gibbs" else 1.0  # all laps, or the fewest
    model = sb.Mixture(2, inference=inference, max_iter=6, tol=tol, random_state=0).fit(ROWS)
    model.save("m.stickbreak")
    assert "predictive" not in command("show", "m.stickbreak").out
    assert "log_predictive" not in json.loads(command("show", "m.stickbreak", "--json").out)


def test_merges_of_collapsed_fits_are_told(command):  # noqa: F811
    model = sb.HDPHMM(
        6,
        family="categorical",
        root="tables",
        inference=sb.CollapsedVB(moves=[sb.Merge()]),
        random_state=0,
    ).fit(SYMBOLS)
    kept = [record for record in model.trace_.moves if record.is_accepted]
    told = model.explain_moves().splitlines()
    gain, n_tried = sum(record.gain for record in kept), len(model.trace_.moves)
    assert kept
    assert told[1] == f"merge: {n_tried} tried on all data, {len(kept)} accepted, {gain:+.2f} nats"
    assert told[2].startswith(f"lap {kept[0].lap}: merge, ids ")
    model.save("m.stickbreak")
    lines = command("show", "m.stickbreak").out.splitlines()
    assert f"moves kept: {len(kept)} of {n_tried} merges" in lines
    assert any(line.startswith("leave-one-out log predictive") for line in lines)
