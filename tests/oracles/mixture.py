"""Textbook variational Bayes for finite and Dirichlet-process mixtures, dense and slow, and exact
evidence.

Rows X (any sequence of N atoms), responsibilities r (N, K), N_k = sum_n r_nk.  An observation model
supplies

    posterior(X, w)               -> q, the optimal factor of one cluster given weights w (N,)
    data_bound(X, w, q)           -> E_q[sum_n w_n log p(x_n | phi)] - KL(q || prior), for any
    factor q expected_log_likelihood(X, q) -> (N,), E_q[log p(x_n | phi)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import lgamma, log
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, xlogy

Array = np.ndarray


# ---- observation models --------------------------------------------------------------------------
class MinimalModel:
    """A minimal family (module `minimal`) with prior (tau, nu); a factor q is a pair (tau_hat,
    nu_hat).
    """

    def __init__(self, family: Any, tau: Array, nu: float) -> None:
        self.family, self.tau, self.nu = family, np.asarray(tau, dtype=float), float(nu)

    def statistics(self, X: Sequence[Any], w: Array) -> tuple[Array, float]:
        """S = sum_n w_n s(x_n), N = sum_n w_n."""
        S = np.zeros(self.family.dim)
        for x, wn in zip(X, w, strict=True):
            S = S + wn * self.family.s(x)
        return S, float(sum(w))

    def posterior(self, X: Sequence[Any], w: Array) -> tuple[Array, float]:
        S, N = self.statistics(X, w)
        return self.tau + S, self.nu + N

    def data_bound(self, X: Sequence[Any], w: Array, q: tuple[Array, float]) -> float:
        """sum w h + cP(q) - cP(prior) + (S + tau - tau_hat).E[phi] - (N + nu - nu_hat)
        E[c(phi)].
        """
        f, (tau_hat, nu_hat) = self.family, q
        S, N = self.statistics(X, w)
        base = sum(wn * f.h(x) for x, wn in zip(X, w, strict=True))
        slack_s = (S + self.tau - tau_hat) @ f.E_phi(tau_hat, nu_hat)
        slack_n = (N + self.nu - nu_hat) * f.E_c(tau_hat, nu_hat)
        return float(base + f.cP(tau_hat, nu_hat) - f.cP(self.tau, self.nu) + slack_s - slack_n)

    def expected_log_likelihood(self, X: Sequence[Any], q: tuple[Array, float]) -> Array:
        return np.array([self.family.expected_log_likelihood(x, *q) for x in X])


class ConjugateModel:
    """A rich conjugate model (module `conjugate`); a factor q is the pair (rows, weights) it is the
    posterior of.
    """

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def posterior(self, X: Array, w: Array) -> tuple[Array, Array]:
        return np.array(X), np.array(w, dtype=float)

    def data_bound(self, X: Array, w: Array, q: tuple[Array, Array]) -> float:
        """KL(q || prior) = sum_m v_m E_q[log p(y_m|phi)] - log_marginal(Y, v), q the posterior of
        rows Y, weights v.
        """
        Y, v = q
        kl = float(v @ self.expected_log_likelihood(Y, q)) - self.prior.log_marginal(Y, v)
        return float(np.asarray(w) @ self.expected_log_likelihood(X, q)) - kl

    def expected_log_likelihood(self, X: Array, q: tuple[Array, Array]) -> Array:
        return np.array([self.prior.expected_log_likelihood(x, *q) for x in X])


# ---- allocation ----------------------------------------------------------------------------------
def log_beta(a: float, b: float) -> float:
    """Log-partition of Beta(a, b)."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def log_dirichlet(theta: Array) -> float:
    """Log-partition of Dirichlet(theta)."""
    return float(gammaln(theta).sum() - gammaln(np.sum(theta)))


def counts_after(N: Array) -> Array:
    """N>_k = sum_{l > k} N_l."""
    return np.array([float(sum(N[k + 1 :])) for k in range(len(N))])


def expected_log_weights_finite(theta: Array) -> Array:
    """psi(theta_k) - psi(sum theta)."""
    return digamma(theta) - digamma(np.sum(theta))


def expected_log_sticks(eta1: Array, eta0: Array) -> tuple[Array, Array]:
    """E[log u_k], E[log(1 - u_k)]."""
    both = digamma(np.asarray(eta1) + eta0)
    return digamma(eta1) - both, digamma(eta0) - both


def expected_log_weights_dp(eta1: Array, eta0: Array) -> Array:
    """E[log u_k] + sum_{l<k} E[log(1 - u_l)]."""
    log_u, log_rest = expected_log_sticks(eta1, eta0)
    return np.array([log_u[k] + sum(log_rest[:k]) for k in range(len(log_u))])


def expected_weights_finite(theta: Array) -> Array:
    """theta_k / sum theta."""
    return np.asarray(theta) / np.sum(theta)


def expected_weights(eta1: Array, eta0: Array) -> tuple[Array, float]:
    """Stick-breaking E[pi_k] = ubar_k prod_{l<k}(1 - ubar_l), and the leftover prod_k (1 -
    ubar_k).
    """
    weights, rest = [], 1.0
    for a, b in zip(eta1, eta0, strict=True):
        weights.append(rest * a / (a + b))
        rest *= b / (a + b)
    return np.array(weights), rest


def global_finite(N: Array, gamma: float) -> Array:
    """theta_k = N_k + gamma/K."""
    return np.asarray(N, dtype=float) + gamma / len(N)


def global_dp(N: Array, gamma: float) -> tuple[Array, Array]:
    """eta1_k = 1 + N_k, eta0_k = gamma + N>_k."""
    return 1.0 + np.asarray(N, dtype=float), gamma + counts_after(N)


def l_dir(N: Array, theta: Array, gamma: float) -> float:
    """LogB(theta) - LogB(gamma/K, ...) + sum_k (N_k + gamma/K - theta_k) E[log pi_k]."""
    K = len(N)
    slack = (np.asarray(N) + gamma / K - theta) @ expected_log_weights_finite(theta)
    return float(log_dirichlet(theta) - log_dirichlet(np.full(K, gamma / K)) + slack)


def l_dp(N: Array, eta1: Array, eta0: Array, gamma: float) -> float:
    """sum_k B(eta_k) - B(1, gamma) + (N_k + 1 - eta1_k) E[log u_k] + (N>_k + gamma - eta0_k)
    E[log(1 - u_k)].
    """
    after = counts_after(N)
    log_u, log_rest = expected_log_sticks(eta1, eta0)
    total = 0.0
    for k in range(len(N)):
        total += log_beta(eta1[k], eta0[k]) - log_beta(1.0, gamma)
        total += (N[k] + 1 - eta1[k]) * log_u[k] + (after[k] + gamma - eta0[k]) * log_rest[k]
    return float(total)


def l_dp_closed_form(N: Array, gamma: float) -> float:
    """At the optimum: sum lgamma(1+N_k) + K log gamma + lgamma(gamma) - lgamma(gamma+N) - sum
    log(gamma + N>=_k).
    """
    K = len(N)
    tails = [gamma + float(sum(N[k:])) for k in range(K)]
    head = (
        sum(lgamma(1 + Nk) for Nk in N)
        + K * log(gamma)
        + lgamma(gamma)
        - lgamma(gamma + float(sum(N)))
    )
    return head - sum(log(t) for t in tails)


# ---- bounds --------------------------------------------------------------------------------------
class Bound(NamedTuple):
    """The three terms of a variational bound."""

    data: float
    entropy: float
    allocation: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.data + self.entropy + self.allocation


def entropies(r: Array) -> Array:
    """H_k = -sum_n r_nk log r_nk, shape (K,)."""
    return -xlogy(r, r).sum(axis=0)


def finite_bound(
    model: Any, X: Any, r: Array, q: Sequence[Any], theta: Array, gamma: float
) -> Bound:
    """Bound of the finite mixture for any r, any K cluster factors q and any Dirichlet theta."""
    data = sum(model.data_bound(X, r[:, k], q[k]) for k in range(r.shape[1]))
    return Bound(float(data), float(entropies(r).sum()), l_dir(r.sum(axis=0), theta, gamma))


def dp_bound(
    model: Any, X: Any, r: Array, q: Sequence[Any], eta1: Array, eta0: Array, gamma: float
) -> Bound:
    """Bound of the DP mixture for any r, any K cluster factors q and any Beta factors
    (eta1, eta0).
    """
    data = sum(model.data_bound(X, r[:, k], q[k]) for k in range(r.shape[1]))
    return Bound(float(data), float(entropies(r).sum()), l_dp(r.sum(axis=0), eta1, eta0, gamma))


def global_step(model: Any, X: Any, r: Array) -> list[Any]:
    """Optimal cluster factors given r."""
    return [model.posterior(X, r[:, k]) for k in range(r.shape[1])]


def bound_at_optimum(model: Any, X: Any, r: Array, gamma: float, allocation: str) -> Bound:
    """Bound with every global factor optimal for r; allocation is "dp" or "finite"."""
    q, N = global_step(model, X, r), r.sum(axis=0)
    if allocation == "dp":
        return dp_bound(model, X, r, q, *global_dp(N, gamma), gamma)
    return finite_bound(model, X, r, q, global_finite(N, gamma), gamma)


def local_step(model: Any, X: Any, q: Sequence[Any], expected_log_weights: Array) -> Array:
    """r_n = softmax_k(E[log p(x_n|phi_k)] + E[log pi_k]), shape (N, K)."""
    W = np.stack([model.expected_log_likelihood(X, qk) for qk in q], axis=1) + expected_log_weights
    return np.exp(W - logsumexp(W, axis=1, keepdims=True))


def vb_step(model: Any, X: Any, r: Array, gamma: float, allocation: str) -> Array:
    """One iteration: global factors from r, then new responsibilities."""
    q, N = global_step(model, X, r), r.sum(axis=0)
    if allocation == "dp":
        log_weights = expected_log_weights_dp(*global_dp(N, gamma))
    else:
        log_weights = expected_log_weights_finite(global_finite(N, gamma))
    return local_step(model, X, q, log_weights)


def merge_columns(r: Array, a: int, b: int) -> Array:
    """Column b added to column a < b and removed."""
    merged = np.delete(r, b, axis=1)
    merged[:, a] = r[:, a] + r[:, b]
    return merged


def merge_gain(
    model: Any, X: Any, r: Array, a: int, b: int, gamma: float, allocation: str
) -> Bound:
    """Difference of the three terms, merged minus original, both at their optimal globals."""
    after = bound_at_optimum(model, X, merge_columns(r, a, b), gamma, allocation)
    before = bound_at_optimum(model, X, r, gamma, allocation)
    return Bound(
        after.data - before.data,
        after.entropy - before.entropy,
        after.allocation - before.allocation,
    )


# ---- exact evidence ------------------------------------------------------------------------------
def set_partitions(n: int) -> Iterator[list[list[int]]]:
    """All partitions of 0..n-1 into non-empty blocks."""
    if n == 0:
        yield []
        return
    for smaller in set_partitions(n - 1):
        for j in range(len(smaller)):
            yield [[*block, n - 1] if i == j else block for i, block in enumerate(smaller)]
        yield [*smaller, [n - 1]]


def finite_log_evidence(
    log_marginal_of_subset: Callable[[list[int]], float], n: int, K: int, gamma: float
) -> float:
    """log sum over K^n labelings z of p(z) prod_k m(rows with z = k); p(z) = Dirichlet-multinomial,
    gamma/K each.

    `log_marginal_of_subset` gets a sorted list of row indices (never empty) and returns the log
    marginal likelihood.
    """
    m = lru_cache(maxsize=None)(lambda rows: log_marginal_of_subset(list(rows)))
    terms = []
    for z in product(range(K), repeat=n):
        blocks = [tuple(i for i in range(n) if z[i] == k) for k in range(K)]
        prior = lgamma(gamma) - lgamma(gamma + n)
        prior += sum(lgamma(gamma / K + len(block)) - lgamma(gamma / K) for block in blocks)
        terms.append(prior + sum(m(block) for block in blocks if block))
    return float(logsumexp(terms))


def dp_log_evidence(
    log_marginal_of_subset: Callable[[list[int]], float], n: int, gamma: float
) -> float:
    """log sum over set partitions of CRP(partition) prod m(block).

    CRP(partition) = gamma^K prod_k (N_k - 1)! Gamma(gamma)/Gamma(gamma + n).
    """
    m = lru_cache(maxsize=None)(lambda rows: log_marginal_of_subset(list(rows)))
    terms = []
    for blocks in set_partitions(n):
        prior = (
            len(blocks) * log(gamma)
            + sum(lgamma(len(b)) for b in blocks)
            + lgamma(gamma)
            - lgamma(gamma + n)
        )
        terms.append(prior + sum(m(tuple(b)) for b in blocks))
    return float(logsumexp(terms))
