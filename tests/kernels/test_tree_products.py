"""Products of rules with spans equal NumPy's, for all sizes of blocks and leftovers."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.kernels.tree.products import add_gather, sum_messages, sum_rules


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 6, 7, 8, 11])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 9])
def test_products_equal_numpy(K: int, m: int) -> None:
    rng, first, n_spans = np.random.default_rng(K * m), 2, m + 3
    rule, joint = rng.random((K, K * K)), rng.random((n_spans, K * K))
    outside, spans = rng.random((n_spans, K)), slice(first, first + m)
    inside, messages = np.full((n_spans, K), 7.0), np.full((m + 2, K * K), 7.0)
    sum_rules(rule, joint, first, m, inside)
    sum_messages(rule, outside, first, m, messages)
    np.testing.assert_allclose(inside[spans], joint[spans] @ rule.T, rtol=1e-13)
    np.testing.assert_allclose(messages[:m], outside[spans] @ rule, rtol=1e-13)
    # nothing else is written
    assert (np.delete(inside, np.arange(n_spans)[spans], 0) == 7.0).all()
    assert (messages[m:] == 7.0).all()
    gather = rng.random((K, K * K))
    wanted = gather + 0.7 * outside[spans].T @ joint[spans]
    add_gather(outside, joint, first, m, 0.7, gather)
    np.testing.assert_allclose(gather, wanted, rtol=1e-13)
