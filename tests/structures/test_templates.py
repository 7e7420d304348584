"""Strings in slots of templates: equal to trying every segmentation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from inference.test_hastings import distances, sampled
from oracles.templates import infer, segmentations

from stickbreak.data import Companion, Sequences, no_substrings, parse_templates
from stickbreak.families.tags import Tags
from stickbreak.inference import EM, BatchVB, CollapsedGibbs, CollapsedVB, LogMean, run
from stickbreak.initialize import from_local
from stickbreak.models import Model, template_grammar

TEMPLATES = ["Word+", "V | V M | S V M", "P+ V M+ | V V"]


def problem(
    templates: str, words: list[str], most: int = 3, **prior: Any
) -> tuple[Model, Sequences]:
    letters = np.array([ord(letter) - 97 for word in words for letter in word])
    offsets = np.r_[0, np.cumsum([len(word) for word in words])]
    substrings, ids = no_substrings().extended(letters, offsets, most, 4)
    model = template_grammar(Tags(3), templates=templates, max_segment=most, **prior)
    model = replace(model, prior=model.prior.listing(substrings, np.full(4, 0.25)))
    data = Sequences(letters[:, None], offsets=offsets, companion=Companion(ids, offsets))
    return model, data


def random_potentials(model: Model, rng: np.random.Generator) -> Any:
    K = len(parse_templates(model.prior.templates).names)
    zeros = model.zeros(K)
    found = model.predictive(zeros, model.start_params(K))
    noise = {name: table + rng.normal(size=table.shape) for name, table in found.tables.items()}
    return replace(found, tables=noise)


@pytest.mark.parametrize("templates", TEMPLATES)
def test_all_segmentations(templates: str) -> None:
    rng = np.random.default_rng(0)
    words = ["abca", "ab", "bbcab"] if templates.startswith(("Word", "V")) else ["abca", "bbcab"]
    model, data = problem(templates, words)
    potentials = random_potentials(model, rng)
    structure, batch = model.structure, data.whole()
    out = {name: array.copy() for name, array in potentials.empty.empty().arrays.items()}
    local = structure.infer(potentials, batch, None, out)
    trees, values = structure.parse(potentials, batch)
    logs = structure.log_evidence(potentials, batch)
    begins, total = structure.tree_shares(potentials, batch), 0.0
    expected = {name: np.zeros_like(array) for name, array in out.items()}
    for s in range(len(words)):
        log_z, counts, marks, best, begun = infer(
            templates, batch.companion.of(s), potentials.tables
        )
        assert logs[s] == pytest.approx(log_z, abs=1e-10)
        assert values[s] == pytest.approx(best, abs=1e-10)
        np.testing.assert_array_equal(trees.of(s), marks)
        np.testing.assert_allclose(begins.of(s), begun, atol=1e-10)
        total += log_z
        for name, array in counts.items():
            expected[name][..., : array.shape[-1]] += array
    assert local.log_z == pytest.approx(total, abs=1e-10)
    for name, array in expected.items():
        if name != "log_absent":
            np.testing.assert_allclose(out[name], array, atol=1e-10)
    np.testing.assert_allclose(local.shares.sum(1), 1.0)


def test_a_string_that_no_template_covers_is_named() -> None:
    model, data = problem("V M", ["ab", "abcabca"])
    with pytest.raises(ValueError, match="sentence 1"):
        model.local_step(random_potentials(model, np.random.default_rng(0)), data.whole())


@pytest.mark.parametrize("templates", TEMPLATES)
def test_drawn_segmentations_have_their_shares(templates: str) -> None:
    rng = np.random.default_rng(1)
    model, data = problem(templates, ["abca"])
    potentials = random_potentials(model, rng)
    many = data.whole().companion.rows
    n = 4000
    batch = Sequences(
        np.tile(data.rows, (n, 1)), offsets=np.arange(n + 1) * 4,
        companion=Companion(np.tile(many, (n, 1)), np.arange(n + 1) * 4),
    ).whole()  # fmt: skip
    out = {name: array.copy() for name, array in potentials.empty.empty().arrays.items()}
    model.structure.infer_drawn(potentials, batch, rng.random((4 * n, 3)), out)
    _, expected, _, _, _ = infer(templates, many, potentials.tables)
    for name, array in expected.items():
        found = out[name][..., : array.shape[-1]] / n
        np.testing.assert_allclose(found, array, atol=5.0 / np.sqrt(n))


@pytest.mark.parametrize("base", ["spelling", "uniform"])
def test_fits_never_drop(base: str) -> None:
    words = ["abcab", "abab", "cab", "bcabc", "ab"] * 2
    model, data = problem("Word+", words, base=base, concentration=0.5)
    start = from_local(model, data, 1, np.random.default_rng(0))
    for engine in (EM(max_iter=20, tol=0.0), BatchVB(max_iter=20, tol=0.0)):
        result = run(model, engine, data, start)
        assert (np.diff(result.trace.bound) > -1e-9).all()
    result = run(model, CollapsedVB(max_iter=20, tol=0.0), data, start)
    assert np.isfinite(result.bound)


def exact_means(model: Model, data: Sequences) -> tuple[np.ndarray, float]:
    """Mean counts of all segmentations of all strings together, and the log evidence."""
    templates, batch = model.prior.templates, data.whole()
    K = len(parse_templates(templates).names)
    params, total, mean = model.start_params(K), 0.0, 0.0
    each = [list(segmentations(templates, batch.companion.of(s))) for s in range(data.n_spans)]
    for choice in product(*each):
        counts = {name: array.copy() for name, array in model.zeros(K).arrays.items()}
        for _, own in choice:
            for name, array in own.items():
                counts[name][..., : array.shape[-1]] += array
        weight = np.exp(model.prior.log_rise(counts, params))
        total, mean = total + weight, mean + weight * flat(counts)
    return np.asarray(mean / total), float(np.log(total))


def flat(counts: Any) -> np.ndarray:
    return np.concatenate([np.ravel(counts[name]) for name in ("template", "repeat", "segment")])


@pytest.mark.parametrize("templates", ["Word+", "V | V M"])
def test_bounds_and_drawn_segmentations_of_an_enumerated_problem(templates: str) -> None:
    model, data = problem(templates, ["aba", "ab", "bab"], base="uniform", concentration=1.0)
    exact, log_evidence = exact_means(model, data)
    K = len(parse_templates(templates).names)
    start = from_local(model, data, K, np.random.default_rng(0))
    for engine in (BatchVB(max_iter=50, tol=0.0), CollapsedVB(max_iter=50, tol=0.0)):
        bound = run(model, engine, data, start).bound
        assert log_evidence - 3.0 < bound < log_evidence
    means, acceptance = sampled(model, data, replace(start, warm=None), 600, flat)
    varies = means.std(0) > 0
    assert (distances(means[:, varies], exact[varies]) < 3.5).all()
    np.testing.assert_allclose(means[:, ~varies].mean(0), exact[~varies], atol=0.02)
    assert acceptance > 0.5


def place_shares(templates: str, ids: np.ndarray, tables: dict[str, Any]) -> tuple[Any, Any]:
    """Expected counts of a string, and (n, L, C) shares of segments by where they begin."""
    slots, found, logs = parse_templates(templates), [], []
    for marks, counts in segmentations(templates, ids):
        own, begins = np.zeros((*ids.shape, len(slots.names))), np.flatnonzero(marks)
        for begin, end in zip(begins, [*begins[1:], len(ids)], strict=True):
            own[begin, end - begin - 1, slots.name[marks[begin] - 1]] = 1.0
        found.append((counts, own))
        used = {name: array > 0 for name, array in counts.items()}
        logs.append(sum(
            tables[name][..., : array.shape[-1]][used[name]] @ array[used[name]]
            for name, array in counts.items()
        ))  # fmt: skip
    shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    mean = {
        name: sum(p * counts[name] for p, (counts, _) in zip(shares, found, strict=True))
        for name in found[0][0]
    }
    return mean, sum(p * own for p, (_, own) in zip(shares, found, strict=True))


def without(shares: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    """(C, size) sums over places of log q(segment not there)."""
    out = np.zeros((shares.shape[2], size))
    for i, j in zip(*np.nonzero(ids >= 0), strict=True):
        out[:, ids[i, j]] += np.maximum(np.log1p(-np.minimum(shares[i, j], 1 - 1e-18)), -40.0)
    return out


@pytest.mark.parametrize("templates", ["Word+", "V | V M"])
def test_collapsed_sweeps_equal_enumeration_given_all_others(templates: str) -> None:
    """Weights of segments are means of log(prior + count), count zero or E / q."""
    model, data = problem(templates, ["aba", "ab", "bab", "abab"], most=4, concentration=0.3)
    K, params = len(parse_templates(templates).names), None
    start = from_local(model, data, K, np.random.default_rng(0))
    result = run(model, CollapsedVB(max_iter=2, tol=0.0), data, start)
    own, params, batch = start.warm, start.params, data.whole()
    assert own is not None
    parts = [slice(lo, hi) for lo, hi in zip(data.offsets, data.offsets[1:], strict=False)]
    tables, size = model.prior.tables(params, K), start.seed["segment"].shape[1]
    kept = []
    for s, part in enumerate(parts):
        shares, ids = own["segments"][part].astype(float), batch.companion.rows[part]
        segment = np.zeros((K, size))
        for i, j in zip(*np.nonzero(ids >= 0), strict=True):
            segment[:, ids[i, j]] += shares[i, j]
        kept.append({
            "template": own["templates"][s].astype(float), "segment": segment,
            "repeat": own["repeats"][s].astype(float), "log_absent": without(shares, ids, size),
        })  # fmt: skip
    for _ in range(2):
        for s, part in enumerate(parts):
            others = {
                name: sum(one[name] for r, one in enumerate(kept) if r != s) for name in kept[0]
            }
            logs = {}
            for name in ("template", "repeat"):
                alpha = others[name] + tables[name].pseudo
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs[name] = np.log(alpha) - np.log(alpha.sum(-1, keepdims=True))
            x, seen = tables["segment"].pseudo, others["segment"]
            q = np.minimum(1.0 - np.exp(others["log_absent"]), seen)
            given = np.log(x + seen / np.maximum(q, 1e-9))
            total = np.log(seen.sum(1) + x.sum(1) + float(tables["segment"].rest))
            logs["segment"] = (1 - q) * np.log(x) + q * given - total[:, None]
            ids = batch.companion.rows[part]
            mean, shares = place_shares(templates, ids, logs)
            segment = np.zeros((K, size))
            segment[:, : mean["segment"].shape[1]] = mean["segment"]
            kept[s] = {**mean, "segment": segment, "log_absent": without(shares, ids, size)}
    for name in kept[0]:
        wanted, found = sum(one[name] for one in kept), result.counts[name]
        if name == "log_absent":  # probabilities: what is certain is -40 or rounding
            wanted, found = np.exp(wanted), np.exp(found)
        # own counts are kept in single precision
        np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_what_was_drawn_is_there_for_certain() -> None:
    """Weights after draws are posterior means, as their sampler has them."""
    model, data = problem("Word+", ["aba", "ab", "bab"], concentration=0.5)
    start = replace(from_local(model, data, 1, np.random.default_rng(0)), warm=None)
    counts = run(model, CollapsedGibbs(max_iter=3), data, start).counts
    np.testing.assert_allclose(counts["log_absent"], -40.0 * counts["segment"])
    found = model.potentials(counts, start.params, LogMean())["segment"]
    np.testing.assert_allclose(found, model.predictive(counts, start.params)["segment"], atol=1e-9)


def test_substrings_are_numbered_once() -> None:
    letters, offsets = np.array([0, 1, 0, 1, 2, 0, 1]), np.array([0, 4, 7])
    substrings, ids = no_substrings().extended(letters, offsets, 3, 5)
    spelled = {tuple(substrings.letters_of(v)) for v in range(len(substrings.prefix))}
    wanted = {
        tuple(letters[i : i + n]) for lo, hi in ((0, 4), (4, 7))
        for i in range(lo, hi) for n in range(1, 4) if i + n <= hi
    }  # fmt: skip
    assert spelled == wanted
    assert len(substrings.prefix) == len(wanted)
    assert substrings.letters_of(int(ids[1, 2])) == [1, 0, 1]
    assert (ids[3, 1:] == -1).all()
    more, again = substrings.extended(np.array([1, 0, 4]), np.array([0, 3]), 3, 5)
    assert again[0, 1] == ids[1, 1]
    assert more.letters_of(int(again[0, 2])) == [1, 0, 4]
    np.testing.assert_array_equal(more.prefix[: len(substrings.prefix)], substrings.prefix)
    np.testing.assert_array_equal(substrings.lengths()[ids[0]], [1, 2, 3])
