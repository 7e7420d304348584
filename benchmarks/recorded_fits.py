"""Fits of every estimator, engine and family, recorded once and compared bit for bit later.

python -m benchmarks.recorded_fits record FOLDER   # writes NAME.npz and NAME.stickbreak of each fit
python -m benchmarks.recorded_fits compare FOLDER  # fits again, loads old files; 1 if a bit differs

Only the public interface is used, and times, versions and paths are left out: what differs is a
result. Recordings belong to a machine: another processor, NumPy or Numba may round otherwise, and
so may another number of BLAS threads, on which the scale of columns depends in long tables.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

import stickbreak as sb

Arrays = dict[str, np.ndarray]

# ------------------------------------------------------------------------------------------ data

PLACES = np.array([[-4.0, 0.0, 1.0], [3.0, 3.0, -1.0], [3.0, -3.0, 2.0], [0.0, 6.0, 0.0]])
LONG = (1000,) * 104  # two lanes of work
SPEECH = {"the": [0], "a": [0], "dog": [1, 2], "sleep": [2]}
NEW_WORDS = [["new", "w001", "new", "word"], ["word", "new", "w002"]] * 10
ONE_WAY = {"start_prior": [1.0, 0.0, 0.0], "transition_prior": np.triu(np.ones((3, 3)))}


def blobs(n: int = 600, D: int = 2, K: int = 3) -> np.ndarray:
    """Rows around some of PLACES."""
    rng = np.random.default_rng(0)
    return PLACES[rng.integers(K, size=n), :D] + rng.normal(size=(n, D)) * rng.choice([0.6, 1.0], D)


def with_gaps(X: np.ndarray, part: float = 0.15) -> np.ndarray:
    """X, some of its entries and one whole row missing."""
    X = np.where(np.random.default_rng(1).random(X.shape) < part, np.nan, X)
    X[5] = np.nan
    return X


def tables(kind: str, n: int = 500, D: int = 6, seed: int = 2) -> Any:
    """Rows of three groups that are no Gaussians around means."""
    rng = np.random.default_rng(seed)
    tilt, group = rng.gamma(0.7, size=(3, D)) + 0.02, rng.integers(3, size=n)
    if kind == "poisson":
        return rng.poisson(4.0 * tilt[group])
    if kind == "bernoulli":
        return (rng.random((n, D)) < (tilt / (1.0 + tilt))[group]).astype(float)
    if kind == "categorical":
        return (rng.random((n, D)) < 0.7) * ((group[:, None] + np.arange(D)) % 4.0)
    if kind == "zero-mean":
        return np.einsum("nde,ne->nd", rng.normal(size=(3, D, D))[group], rng.normal(size=(n, D)))
    return sparse.csr_array(rng.multinomial(30, (tilt / tilt.sum(1, keepdims=True))[group]))


def people() -> pd.DataFrame:
    """Columns of several kinds, with gaps and words."""
    rng, n = np.random.default_rng(3), 300
    group = rng.integers(3, size=n)
    sizes = np.array([[165, 60], [180, 85], [172, 95]])[group] + 6 * rng.normal(size=(n, 2))
    height, weight = with_gaps(sizes, 0.1).T
    color = np.array(["blue", "green", "red"])[(group + (rng.random(n) < 0.2)) % 3]
    smoker, visits = rng.random(n) < 0.2 + 0.3 * group, rng.poisson(np.array([2, 4, 11])[group])
    columns = {"height": height, "weight": weight, "color": color}
    return pd.DataFrame({**columns, "smoker": smoker, "visits": visits})


def paths(lengths: Iterable[int], K: int, leave: float) -> list[np.ndarray]:
    """States that are left rarely."""
    rng = np.random.default_rng(4)
    return [np.cumsum((rng.random(T) < leave) * rng.integers(1, K, T)) % K for T in lengths]


def walks(lengths: Iterable[int] = (90, 150, 41, 120), D: int = 2, K: int = 3) -> list[np.ndarray]:
    """Sequences of rows around PLACES."""
    rng = np.random.default_rng(5)
    return [PLACES[path, :D] + rng.normal(size=(len(path), D)) for path in paths(lengths, K, 0.06)]


def swings(lengths: Iterable[int] = (150, 200, 120)) -> list[np.ndarray]:
    """Autoregressions of order two that change between slow and fast."""
    rng, found = np.random.default_rng(6), []
    for path in paths(lengths, 2, 0.03):
        rows = rng.normal(size=(len(path), 1))
        for t in range(2, len(path)):
            rows[t] += (1.6, 0.3)[path[t]] * rows[t - 1] - (0.8, 0.5)[path[t]] * rows[t - 2]
        found.append(rows)
    return found


def sentences(n: int = 60) -> list[list[str]]:
    """Sequences of words whose states are kinds of words."""
    kinds = [["the", "a"], ["dog", "cat", "run", "bird"], ["run", "sleep", "sing"]]
    rng = np.random.default_rng(7)
    return [[str(rng.choice(kinds[t % 3])) for t in range(rng.integers(4, 16))] for _ in range(n)]


def counts(n: int = 80, V: int = 40, size: int = 30, K: int = 4) -> Any:
    """Documents of a few topics as a matrix."""
    rng = np.random.default_rng(8)
    shares = rng.dirichlet(np.full(K, 0.2), n) @ rng.dirichlet(np.full(V, 0.1 + size / 2000), K)
    return sparse.csr_array(rng.multinomial(size, shares / shares.sum(1, keepdims=True)))


def texts(n: int = 80) -> list[list[str]]:
    """The same as lists of words."""
    return [[f"w{v:03d}" for v in np.repeat(np.arange(40), row)] for row in counts(n).toarray()]


def weighed(X: Any) -> dict[str, Any]:
    """Weights, zero among them."""
    at = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
    return {"sample_weight": at % 3 + 0.5 * (at % 2)}


def known(X: Any) -> dict[str, Any]:
    """Weights, and labels of a few rows."""
    first = lambda x: np.where(np.arange(len(x)) < 6, np.arange(len(x)) % 2, -1)
    return {**weighed(X), "labels": [first(x) for x in X] if isinstance(X, list) else first(X)}


measures = lambda: people()[["height", "weight", "visits"]]
holed = lambda: [with_gaps(walk, 0.1) for walk in walks()]
rises = lambda: [with_gaps(np.sort(tables("poisson", 40, 2, seed), 0), 0.1) for seed in range(5)]
parts = lambda X, n=3: [X[i * len(X) // n : (i + 1) * len(X) // n] for i in range(n)]


# ------------------------------------------------------------------------------------------ ways


class Plan(NamedTuple):
    """A fit that is not made yet. how: if not by `fit`. read: rows for readers, if not X."""

    model: Any
    X: Any
    given: Any = None
    how: Callable[[Plan, Path], tuple[Any, Arrays]] | None = None
    read: Any = None

    def fit(self) -> Any:
        """The fitted model."""
        return self.model.fit(self.X, **(self.given or {}))

    @property
    def rows(self) -> Any:
        """What readers are given."""
        return self.X if self.read is None else self.read


def stream(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """X is a list of parts; what is known after each of them is recorded."""
    found: Arrays = {}
    for i, part in enumerate(plan.X):
        plan.model.partial_fit(part, **(plan.given or {}))
        put(found, f"after{i}", {"counts": plan.model.counts_, "bound": plan.model.lower_bound_})
    return plan.model, found


def on_disk(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """Rows in a file: those of a data frame as text."""
    if isinstance(plan.X, pd.DataFrame):
        plan.X.to_csv(path.with_suffix(".csv"), index=False)
        return plan.model.fit(path.with_suffix(".csv")), {}
    np.save(path.with_suffix(".npy"), plan.X)
    return plan.model.fit(path.with_suffix(".npy")), {}


def twice(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """A fit to half of the rows, then one to all that begins from it."""
    first = recording(plan.model.set_params(warm_start=True).fit(plan.X[::2]), plan.rows)
    return plan.fit(), first


def asked(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """Also what is said of all of X, where probabilities of its rows would take too much room."""
    found, model = {}, plan.fit()
    for name in ("predict", "decode", "score", "score_samples", "forecast"):
        put(found, name, getattr(model, name)(plan.X))
    return model, found


class Stop(sb.Callback):
    """Ends the fit, or the process, before the last of three visits in lap 2, amid its moves."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.end = end

    def on_step(self, info: Any) -> None:
        if info.step == 6:
            self.end()


def begin(plan: Plan, path: Path, end: Callable[[], None]) -> None:
    """A fit that does not end by itself."""
    how = {"checkpoint": str(path), "checkpoint_every": 0.0, "callbacks": [Stop(end)]}
    plan.model.inference.set_params(**how)
    plan.fit()
    raise RuntimeError("the fit was over before it could be stopped")


def resume(plan: Plan, path: Path, scratch: Path) -> Any:
    """The rest of it, from a copy, for a resumed fit writes to its file."""
    return sb.resume(shutil.copy(path, scratch / "resumed"), plan.X, **(plan.given or {}))


def interrupted(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """Ctrl-C, after which the model is recorded too, and the rest."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    path, found = path.with_suffix(".checkpoint"), {}
    try:
        begin(plan, path, interrupt)
    except KeyboardInterrupt:
        found = recording(plan.model, plan.rows)
    return resume(plan, path, path.parent), found


def killed(plan: Plan, path: Path) -> tuple[Any, Arrays]:
    """A process that is killed, and the rest."""
    command = [sys.executable, "-m", "benchmarks.recorded_fits", "die", str(path.parent)]
    ended = subprocess.run([*command, "--only", path.name], check=False)
    if ended.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the process ended with {ended.returncode} instead of being killed")
    return resume(plan, path.with_suffix(".checkpoint"), path.parent), {}


# ------------------------------------------------------------------------------------------ fits


KINDS = {"categorical": "color", "bernoulli": "smoker", "poisson": "visits"}
mixed = lambda: sb.Product({"gaussian": ["height", "weight"], **KINDS})
batch = lambda **more: sb.BatchVB(**{"max_iter": 20, **more})
memo = lambda *moves, **more: sb.MemoizedVB(
    **{"n_batches": 3, "max_iter": 12, "moves": moves, **more}
)
moving = lambda **more: memo(sb.Birth(), sb.Merge(), sb.Delete(), **more)
noisy = lambda size, **more: sb.StochasticVB(**{"batch_size": size, "max_iter": 4, **more})


def maker(kind: type, default: Callable[[], Any]) -> Callable[..., Any]:
    """Makes estimators of a kind from their number of components, family and engine."""

    def make(K: int, family: Any = None, inference: Any = None, **more: Any) -> Any:
        more |= {} if family is None else {"family": family}
        return kind(K, inference=inference or default(), random_state=0, **more)

    return make


mixture, dp = maker(sb.Mixture, batch), maker(sb.DPMixture, moving)
hmm, hdp = maker(sb.HMM, batch), maker(sb.HDPHMM, moving)
lda, hdt = maker(sb.LatentDirichletAllocation, batch), maker(sb.HDPTopicModel, moving)
gamma, lagged, em, subchain = sb.GammaPrior, sb.AutoregressiveGaussian, sb.EM, sb.SubchainVB
learned = lambda: {"concentration": gamma(), "learn_prior": True}
roots = lambda: {"top_concentration": gamma(1, 0.1), **learned()}
sticky = lambda: {"stickiness": gamma(1, 0.05), "start_concentration": gamma(), **roots()}

# fmt: off
FITS: dict[str, Callable[[], Plan]] = {
    "mixture-starts": lambda: Plan(mixture(4, n_init=3), blobs()),
    "mixture-lanes": lambda: Plan(mixture(4, None, memo(n_batches=2)), blobs(34_000, 3)),
    "mixture-visits": lambda: Plan(mixture(3, "diagonal", memo(trace_visits=True)), blobs()),
    "mixture-stochastic": lambda: Plan(mixture(3, "fixed-variance", noisy(100)), blobs()),
    "mixture-em": lambda: Plan(mixture(3, None, em(max_iter=20)), blobs()),
    "mixture-hard-em": lambda: Plan(mixture(4, "diagonal", sb.HardEM(), init="random"), blobs()),
    "mixture-gibbs": lambda: Plan(mixture(4, None, sb.Gibbs(max_iter=25)), blobs()),
    "mixture-known": lambda: Plan(mixture(3), blobs(), known(blobs())),
    "mixture-gaps": lambda: Plan(mixture(3, learn_prior=True), with_gaps(blobs(D=3))),
    "mixture-gaps-diagonal": lambda: Plan(mixture(3, "diagonal", memo()), with_gaps(blobs(D=3))),
    "mixture-symbols": lambda: Plan(
        mixture(4, sb.Categorical(1.0), memo(), **learned()), with_gaps(tables("categorical"))),
    "mixture-bits": lambda: Plan(
        mixture(4, "bernoulli", init="k-means||", **learned()), with_gaps(tables("bernoulli"))),
    "mixture-few": lambda: Plan(mixture(5, "poisson", batch(max_active=2)), tables("poisson")),
    "mixture-counts-few": lambda: Plan(
        mixture(8, "multinomial", memo(max_active=2, candidates=4)), tables("multinomial"),
        weighed(tables("multinomial"))),
    "mixture-stochastic-few": lambda: Plan(
        mixture(6, None, noisy(100, max_active=2, candidates=3, first_rate=1.0)), blobs()),
    "mixture-zero-mean": lambda: Plan(mixture(3, "zero-mean"), tables("zero-mean", D=3)),
    "mixture-lagged": lambda: Plan(
        mixture(2, lagged(order=2)), sb.lag_rows(np.concatenate(swings()), order=2)[0]),
    "mixture-product": lambda: Plan(mixture(3, mixed(), n_init=2), people(), known(people())),
    "mixture-npy": lambda: Plan(mixture(3, None, memo(memory_limit=0)), blobs(), None, on_disk),
    "mixture-csv": lambda: Plan(mixture(3, "diagonal"), measures(), None, on_disk),
    "mixture-warm": lambda: Plan(mixture(3), blobs(), known(blobs()), twice),
    "mixture-stream": lambda: Plan(mixture(3), parts(blobs()), None, stream, blobs()),
    "mixture-stream-noisy": lambda: Plan(
        mixture(3, "poisson", noisy(50, kappa=0.7)), parts(tables("poisson"), 5),
        {"total_samples": 500}, stream, tables("poisson")),
    "dp-moves": lambda: Plan(dp(1), blobs(K=4)),
    "dp-lanes": lambda: Plan(dp(1, None, moving(n_batches=2)), blobs(34_000, 3)),
    "dp-truncated": lambda: Plan(dp(10, "diagonal", memo(), **learned()), blobs()),
    "dp-births": lambda: Plan(dp(1, None, batch(moves=[sb.Birth(n_newborn=4)])), blobs()),
    "dp-merges": lambda: Plan(dp(10, None, batch(moves=[sb.Merge()])), blobs()),
    "dp-deletes": lambda: Plan(dp(8, None, memo(sb.Delete(), max_iter=20)), blobs()),
    "dp-few": lambda: Plan(dp(6, None, moving(max_active=2), learn_prior=True), blobs(K=4)),
    "dp-product": lambda: Plan(dp(2, mixed()), people(), weighed(people())),
    "dp-counts": lambda: Plan(dp(2, "multinomial"), tables("multinomial")),
    "dp-gaps": lambda: Plan(dp(1), with_gaps(blobs(D=3))),
    "dp-known": lambda: Plan(dp(6), blobs(), known(blobs())),
    "dp-default": lambda: Plan(sb.DPMixture(random_state=0), blobs(D=3, K=4)),
    "dp-stream": lambda: Plan(dp(1), [*parts(blobs(K=2)), blobs(K=4)], None, stream, blobs()),
    "dp-killed": lambda: Plan(dp(1), blobs(K=4), None, killed),
    "hmm-starts": lambda: Plan(hmm(3, n_init=3), walks()),
    "hmm-lanes": lambda: Plan(hmm(3, "diagonal", batch(max_iter=4)), walks(LONG, 1)),
    "hmm-known": lambda: Plan(hmm(3, stickiness=5.0), holed(), known(holed())),
    "hmm-lengths": lambda: Plan(
        hmm(3, init="k-means++"), np.concatenate(walks()), {"lengths": [90, 150, 41, 120]}),
    "hmm-em": lambda: Plan(hmm(3, None, em(max_iter=15)), walks()),
    "hmm-hard-em": lambda: Plan(hmm(3, None, sb.HardEM(), init="random"), walks()),
    "hmm-memoized": lambda: Plan(hmm(4, "diagonal", memo(), learn_prior=True), holed()),
    "hmm-stochastic": lambda: Plan(hmm(3, None, noisy(5)), walks(range(30, 70, 2))),
    "hmm-windows": lambda: Plan(
        hmm(4, None, subchain(subchain_length=50, n_subchains=4, max_iter=4)), walks([4000, 60])),
    "hmm-windows-fixed": lambda: Plan(
        hmm(3, "diagonal", subchain(subchain_length=80, buffer=10, max_iter=3)), walks([3000])),
    "hmm-pieces": lambda: Plan(
        hmm(60, "diagonal", batch(max_iter=2)), walks([150_000], 1), None, asked, walks([400], 1)),
    "hmm-few": lambda: Plan(hmm(16, None, memo(max_active=3)), walks([300] * 6)),
    "hmm-allowed": lambda: Plan(hmm(3, "categorical", allowed=SPEECH), sentences()),
    "hmm-one-way": lambda: Plan(hmm(3, "poisson", **ONE_WAY), rises()),
    "hmm-lagged": lambda: Plan(hmm(2, lagged(order=2)), swings()),
    "hmm-product": lambda: Plan(hmm(3, mixed()), people()),
    "hmm-stream": lambda: Plan(hmm(3), parts(walks([60] * 9)), None, stream, walks()),
    "hdp-hmm-births": lambda: Plan(hdp(1), walks([120] * 5, K=4)),
    "hdp-hmm-default": lambda: Plan(sb.HDPHMM(random_state=0), walks([120] * 5, 3, 4)),
    "hdp-hmm-sticky": lambda: Plan(hdp(6, stickiness=20.0), walks([120] * 5, K=4)),
    "hdp-hmm-lanes": lambda: Plan(hdp(4, None, moving(n_batches=1, max_iter=4)), walks(LONG, 1)),
    "hdp-hmm-learned": lambda: Plan(hdp(6, **sticky()), holed()),
    "hdp-hmm-point": lambda: Plan(hdp(5, None, memo(), root="point"), walks()),
    "hdp-hmm-em": lambda: Plan(hdp(5, None, em(max_iter=10)), walks()),
    "hdp-hmm-gibbs": lambda: Plan(
        hdp(8, "diagonal", sb.Gibbs(max_iter=20), stickiness=5.0), walks()),
    "hdp-hmm-stochastic": lambda: Plan(hdp(6, None, noisy(4)), walks([50] * 16)),
    "hdp-hmm-few": lambda: Plan(hdp(10, None, moving(max_active=3)), walks([150] * 5)),
    "hdp-hmm-lagged": lambda: Plan(hdp(1, lagged(), stickiness=10.0), swings(), weighed(swings())),
    "hdp-hmm-symbols": lambda: Plan(hdp(8, "categorical"), sentences(), weighed(sentences())),
    "hdp-hmm-stream": lambda: Plan(hdp(3), parts(walks([60] * 9)), None, stream, walks()),
    "hdp-hmm-known": lambda: Plan(hdp(5), holed(), known(holed())),
    "hdp-hmm-interrupted": lambda: Plan(hdp(1), walks([80] * 6), None, interrupted),
    "lda-words": lambda: Plan(lda(4), texts()),
    "lda-lanes": lambda: Plan(lda(4, None, batch(max_iter=3)), counts(1100, 300, 200)),
    "lda-learned": lambda: Plan(
        lda(5, None, memo(), init="random", **learned()), counts(), weighed(counts())),
    "lda-stochastic": lambda: Plan(lda(4, None, noisy(20)), counts()),
    "lda-em": lambda: Plan(lda(4, None, em(max_iter=10)), counts()),
    "lda-restarts": lambda: Plan(lda(6, restarts=3, n_init=2), texts()),
    "lda-stream": lambda: Plan(
        lda(4), [*parts(texts()), NEW_WORDS], None, stream, texts(20) + NEW_WORDS),
    "lda-stream-noisy": lambda: Plan(
        lda(4, None, noisy(20)), parts(texts(), 4), {"total_samples": 80}, stream, texts()),
    "hdp-topics-moves": lambda: Plan(hdt(1), texts()),
    "hdp-topics-lanes": lambda: Plan(
        hdt(8, None, moving(n_batches=1, max_iter=3)), counts(1100, 300, 200)),
    "hdp-topics-default": lambda: Plan(sb.HDPTopicModel(random_state=0), counts()),
    "hdp-topics-merges": lambda: Plan(hdt(9, None, memo(sb.Merge(), sb.Delete())), counts()),
    "hdp-topics-learned": lambda: Plan(hdt(3, **roots()), counts(), weighed(counts())),
    "hdp-topics-point": lambda: Plan(hdt(5, None, memo(), root="point"), counts()),
    "hdp-topics-stream": lambda: Plan(
        hdt(1), [*parts(texts()), NEW_WORDS], None, stream, texts(20) + NEW_WORDS),
    "hdp-topics-interrupted": lambda: Plan(hdt(1), texts(), None, interrupted),
}
# fmt: on
THREADS, WHOLE = "-two-threads", "-not-stopped"
LIKE = {  # fits that must have the bits of others, and those others
    **{name + THREADS: name for name in FITS if name.endswith("-lanes")},
    **{name + WHOLE: name for name in FITS if name.endswith(("-killed", "-interrupted"))},
}


def make_plan(name: str) -> Plan:
    """A fit of the table, or its like."""
    plan = FITS[LIKE.get(name, name)]()
    if name.endswith(THREADS):
        plan.model.set_params(n_jobs=2)
    return plan._replace(how=None) if name.endswith(WHOLE) else plan


# ------------------------------------------------------------------------------------------ results

READERS = ("predict", "predict_proba", "transform", "score_samples", "score", "score_sequences")
CHAIN_READERS = ("decode", "filter_proba")
TRACE = ("bound", "log_z", "n_components", "n_used", "disagreement", "visits")


def put(found: Arrays, name: str, value: Any) -> None:
    """Whatever a value consists of as arrays; what is neither a number nor text is left out."""
    value = value.get_params(deep=False) if hasattr(value, "get_params") else value
    if isinstance(value, list) and value and all(isinstance(v, np.ndarray) for v in value):
        value = np.concatenate(value)  # of sequences
    is_flat = not isinstance(value, list | tuple) or all(isinstance(v, int | str) for v in value)
    if isinstance(value, dict) or not is_flat:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            put(found, f"{name}.{key}", item)
        return
    array = value.toarray() if sparse.issparse(value) else np.asarray(value)
    array = array.astype(str) if array.dtype.kind == "O" and array.ndim else array
    if array.dtype.kind in "biufU":
        found[name] = array


def recording(model: Any, X: Any) -> Arrays:
    """Everything that a fitted model has and says of X."""
    found: Arrays = {}
    names = {n for n in [*dir(type(model)), *vars(model)] if n.endswith("_") and n[0] != "_"}
    for name in sorted(names - {"trace_"}):
        try:
            put(found, name, getattr(model, name))
        except AttributeError:  # not of this family, or not kept in files
            continue
    put(found, "trace", {name: np.array(getattr(model.trace_, name)) for name in TRACE})
    moves = [" ".join(f"{k}={v}" for k, v in m.to_dict().items()) for m in model.trace_.moves]
    put(found, "trace.moves", "\n".join(moves))
    is_chain, parts = hasattr(model, "forecast"), X if isinstance(X, list) else [X]
    for name in (*READERS, *(CHAIN_READERS if is_chain else ())):
        if hasattr(model, name):
            put(found, name, getattr(model, name)(X))
    if is_chain:
        put(found, "forecast", model.forecast(X, 4))
        now, rows = model.online_filter(), [] if isinstance(X, pd.DataFrame) else parts[0][:20]
        put(found, "online", [np.hstack(now.update(row)) for row in rows])
    if hasattr(model, "top_words"):
        put(found, "top_words", model.top_words(5))
    elif not sparse.issparse(X) and any(np.any(pd.isna(rows)) for rows in parts):
        put(found, "impute", model.impute(X))
    put(found, "sample", model.sample(12, random_state=1))
    return found


def differences(old: Arrays, new: Arrays, what: str = "") -> list[str]:
    """What of the old arrays the new ones lack or have otherwise."""
    found = []
    for name, a in old.items():
        b = new.get(name)
        if b is None:
            found.append(f"{what}{name} is gone")
        elif (a.dtype, a.shape) != (b.dtype, b.shape):
            found.append(f"{what}{name} was {a.dtype}{a.shape} and is {b.dtype}{b.shape}")
        elif bits(a) != bits(b):
            by = "" if a.dtype.kind == "U" else f" by {np.nanmax(np.abs(a * 1.0 - b * 1.0)):.2g}"
            found.append(f"{what}{name} differs{by}")
    return found


def bits(array: np.ndarray) -> bytes:
    """All of them, but NaN is NaN."""
    array = np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array
    return array.tobytes()


def read(folder: Path, name: str, leave_out: tuple[str, ...] = ()) -> Arrays:
    """What was recorded, without names that begin so."""
    with np.load(folder / f"{name}.npz") as file:
        return {key: file[key] for key in file.files if not key.startswith(leave_out or "?")}


def run(name: str, folder: Path, scratch: Path) -> list[str]:
    """Fit, and write what was found."""
    plan = make_plan(name)
    model, more = (plan.fit(), {}) if plan.how is None else plan.how(plan, scratch / name)
    more = {f"more.{key}": array for key, array in more.items()}
    np.savez_compressed(folder / f"{name}.npz", **recording(model, plan.rows), **more)
    model.save(folder / f"{name}.stickbreak")
    if (scratch / f"{name}.checkpoint").exists():
        shutil.copy(scratch / f"{name}.checkpoint", folder)
    other = LIKE.get(name)
    if other is None or not (folder / f"{other}.npz").exists():
        return []
    pair = (read(folder, other, ("more.",)), read(folder, name))
    return differences(*pair, f"unlike {other}: ")


def compare(name: str, old: Path, new: Path) -> list[str]:
    """What differs between an old fit and a new one."""
    return differences(read(old, name), read(new, name))


def reload(name: str, folder: Path, what: str) -> list[str]:
    """What a model that is read from its file says otherwise than the fit did."""
    found = recording(sb.load(folder / f"{name}.stickbreak"), make_plan(name).rows)
    return differences(read(folder, name, ("more.", "labels_")), found, what)


def continued(name: str, folder: Path, scratch: Path) -> list[str]:
    """What becomes of an old checkpoint, if there is one, otherwise than it did."""
    path, plan = folder / f"{name}.checkpoint", make_plan(name)
    found = recording(resume(plan, path, scratch), plan.rows) if path.exists() else None
    old = read(folder, name, ("more.",))
    return [] if found is None else differences(old, found, "old checkpoint: ")


def attempt(call: Callable[..., list[str]], *given: Any) -> list[str]:
    """What a call says, or how it failed."""
    try:
        return call(*given)
    except Exception as error:  # noqa: BLE001
        return [f"{call.__name__} failed: {type(error).__name__}: {error}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("record", "compare", "die"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", choices=[*FITS, *LIKE], metavar="NAME")
    given = parser.parse_args()
    names, is_new = given.only or [*FITS, *LIKE], given.command == "record"
    warnings.simplefilter("ignore")
    if given.command == "die":
        path = given.folder / f"{names[0]}.checkpoint"
        begin(make_plan(names[0]), path, lambda: os.kill(os.getpid(), signal.SIGKILL))
    began, n_bad = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as place:
        scratch, folder = Path(place), given.folder if is_new else Path(place, "new")
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            lines = attempt(run, name, folder, scratch)
            if not is_new:
                lines += attempt(compare, name, given.folder, folder)
                lines += attempt(reload, name, given.folder, "old file: ")
                lines += attempt(reload, name, folder, "new file: ")
                lines += attempt(continued, name, given.folder, scratch)
            verdict = "differs" if lines else "recorded" if is_new else "same"
            print(f"{name:40s} {verdict}", *lines, sep="\n    ", flush=True)
            n_bad += bool(lines)
    print(f"{len(names)} fits in {time.perf_counter() - began:.0f} s, {n_bad} of them differ")
    return int(n_bad > 0)


if __name__ == "__main__":
    sys.exit(main())
