"""What to expect of a row that nobody has seen: what forecasts give for every family."""

import numpy as np
import pytest
from registers import FAMILIES, collect, random_shares

import stickbreak as sb
from stickbreak import families
from stickbreak.families.base import BaseFamily

PLAIN = [name for name, case in FAMILIES.items() if not case.family.lags]
N_DRAWS = 20_000


def refusing(family):
    """The same family, which refuses missing entries."""
    cls = type(family)
    changed = {"missing": "refused", "impute": BaseFamily.impute}
    return type(cls.__name__, (cls,), changed)(**family.get_params(deep=False))


@pytest.mark.parametrize("name", PLAIN)
def test_expected_rows_are_the_means_of_many_draws(name):
    family, rows = FAMILIES[name].family, FAMILIES[name].rows
    counts = collect(family, rows, random_shares(rows.shape[0], 3, 0))
    shares = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    found = family.expected_rows(counts, shares)
    assert found.shape == (2, rows.shape[1])
    rng = np.random.default_rng(1)
    for share, row in zip(shares, found, strict=True):
        drawn = family.sample(counts, rng.choice(3, N_DRAWS, p=share), rng)
        drawn = np.asarray(drawn.toarray() if hasattr(drawn, "toarray") else drawn, dtype=float)
        if name.startswith("multinomial"):  # draws have whole lengths: those of the average row
            assert abs(drawn.sum(1).mean() - row.sum()) < 0.5
            row = row * drawn.sum(1).mean() / row.sum()
        symbols = {"categorical": [0, 1], "product": [2]}.get(name, [])
        for d in range(rows.shape[1]):
            if d in symbols:
                assert row[d] == np.bincount(drawn[:, d].astype(int)).argmax()
                continue
            error = drawn[:, d].std() / np.sqrt(N_DRAWS)
            assert abs(row[d] - drawn[:, d].mean()) < 5.0 * error + 1e-12


@pytest.mark.parametrize("name", PLAIN)
def test_families_that_refuse_missing_entries_expect_the_same_or_say_what_they_lack(name):
    family, rows = FAMILIES[name].family, FAMILIES[name].rows
    shares = random_shares(rows.shape[0], 3, 0)
    counts, strict = collect(family, rows, shares), refusing(family)
    if isinstance(family, families.Product) or "mean" in family.describe(counts):
        found = strict.expected_rows(counts, shares)
        np.testing.assert_allclose(found, family.expected_rows(counts, shares), rtol=1e-12)
    else:
        with pytest.raises(ValueError, match=r"expected_rows\(counts, shares\)"):
            strict.expected_rows(counts, shares)


def test_a_member_that_refuses_missing_entries_is_forecast_with_the_others():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.poisson(3.0, 200)])
    strict = refusing(sb.DiagonalGaussian())
    mixed = sb.Product([(strict, [0]), (sb.Poisson(), [1])])
    for family, columns in ((mixed, [0, 1]), (strict, [0])):
        model = sb.HMM(2, family=family, random_state=0, inference=sb.BatchVB(max_iter=3, tol=1e9))
        rows = model.fit(X[:, columns]).forecast(X[:, columns], 3).rows
        assert rows.shape == (1, 3, len(columns))
        assert np.isfinite(rows).all()
