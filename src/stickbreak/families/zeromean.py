"""Vectors with mean zero and unknown covariance: Wishart prior on the precision.

precision ~ Wishart(dof, inverse scale B); posterior dof + n, B + sum x x'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.kernels.live_gaussian import LiveSums, LiveWishart
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, log_gamma_rise

from . import quadratic, wishart
from .base import LOG_2PI, BaseFamily
from .live_gaussians import live_wishart
from .moments import (
    cholesky,
    complete_rows,
    n_full,
    n_partial,
    prepare_full,
    prepare_standardized,
    require_near,
    unpack_symmetric,
)
from .partial import PartialRows
from .prior_scales import prior_frame, require_moderate

__all__ = ["ZeroMeanGaussian"]

# of a column's mean square. Components differ in scale only, and the widest one dominates the scale
# of the table.
DEFAULT_SHARE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class ZeroMeanGaussian(BaseFamily):
    """Gaussian with mean zero and full covariance, Wishart prior: patches, returns, residuals.

    Parameters
    ----------
    dof : degrees of freedom of the Wishart prior, above D + 1. Default D + 2.
    covariance : prior expected covariance, a number (times the identity), (D,) variances or (D, D).
        Default: diagonal, a tenth of each column's mean square.
    scale : (D,) frame in which statistics are kept; set from the data. It only affects rounding.
    """

    dof: float | None = None
    covariance: Any = None
    scale: Any = None
    draws = True
    learned = ("covariance",)
    missing = "completed"

    def resolve(self, scale: Scale) -> ZeroMeanGaussian:
        """Prior covariance = diag(0.1 * column mean squares); dof = D + 2."""
        require_moderate(scale)
        square = np.where(scale.square > 0, scale.square, 1.0)
        return replace(
            self,
            dof=wishart.prior_dof(self.dof, scale.n_features + 2.0, scale.n_features),
            covariance=wishart.prior_matrix("covariance", self.covariance, DEFAULT_SHARE * square),
            scale=prior_frame(None, self.scale, scale.mean, np.sqrt(square))["scale"],
        )

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.scale)

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return self.n_features

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Rows must not be so large that their density is no number."""
        require_near(np.asarray(rows), 0.0, self.scale, first)

    def fields(self, axis: str) -> dict[str, Field]:
        """Moments [n, sum z, sum z z' (upper triangle)]; the first moments are not used."""
        return {"moments": Field((axis, None), nonnegative=False)}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        return {"moments": np.zeros((n_components, n_full(self.n_features)))}

    def width(self) -> int:
        """Number of features of a row."""
        return n_full(self.n_features)

    def prepare(self, rows: Any) -> Array | PartialRows:
        """Features (P, n) of rows (n, D); with missing entries, partial rows are kept apart."""
        return prepare_full(rows, np.zeros(self.n_features), self.scale)

    def prepare_seeding(self, rows: Any) -> Array:
        """[1, z] (1 + D, n) of rows (n, D)."""
        return prepare_standardized(rows, np.zeros(self.n_features), self.scale)

    # ------------------------------------------------------------------------------------ posterior

    def _prior(self) -> tuple[float, Array]:
        assert self.dof is not None
        return self.dof, (self.dof - self.n_features - 1) * self.covariance / np.outer(
            self.scale, self.scale
        )

    def _posterior(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Dof (K,), Cholesky factor (K, D, D) of the inverse scale, its log determinant (K,)."""
        dof, inverse_scale = self._prior()
        moments, D = counts["moments"], self.n_features
        second = unpack_symmetric(moments[:, 1 + D :], D)
        factor = cholesky(inverse_scale + second, np.einsum("kdd->kd", second))
        return dof + moments[:, 0], factor, 2.0 * np.log(np.einsum("kdd->kd", factor)).sum(1)

    def _per_row(self) -> float:
        return -float(np.log(self.scale).sum()) - 0.5 * self.n_features * LOG_2PI

    def _form(self, factor: Array, weight: Array) -> quadratic.FullForm:
        zero = np.zeros(factor.shape[:2])
        return quadratic.FullForm(zero, factor, weight, zero)

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        _, _, log_det = self._posterior(counts)
        dof, inverse_scale = self._prior()
        rows, prior = counts["moments"][:, 0], float(np.linalg.slogdet(inverse_scale)[1])
        rise = wishart.log_partition_rise(dof, prior, rows, log_det, self.n_features)
        return rise + self._per_row() * rows

    def mean_log(self, counts: Counts) -> quadratic.QuadraticScores:
        """E[log N(x | 0, precision)]."""
        dof, factor, log_det = self._posterior(counts)
        constant = 0.5 * wishart.expected_log_det(dof, log_det, self.n_features) + self._per_row()
        return quadratic.QuadraticScores.make(self._form(factor, dof), constant)

    def log_mean(self, counts: Counts) -> quadratic.StudentScores:
        """Student t with dof + 1 - D degrees of freedom and shape B / (dof + 1 - D)."""
        n_hat, factor, log_det = self._posterior(counts)
        D = self.n_features
        dof = n_hat + 1.0 - D
        power = 0.5 * (dof + D)
        constant = (
            log_gamma_rise(0.5 * dof, 0.5 * D)
            + 0.5 * D * np.log(2.0)
            - 0.5 * log_det
            + self._per_row()
        )
        return quadratic.StudentScores(self._form(factor, dof), constant, power, dof)

    def _rows_worth(self, dof: Any) -> Any:
        return np.maximum(dof - self.n_features - 1.0, 1e-6)

    def mode(self, counts: Counts) -> quadratic.QuadraticScores:
        """N(x | 0, B / (dof - D - 1)): the mode in natural coordinates."""
        dof, factor, log_det = self._posterior(counts)
        worth = self._rows_worth(dof)
        constant = 0.5 * (self.n_features * np.log(worth) - log_det) + self._per_row()
        return quadratic.QuadraticScores.make(self._form(factor, worth), constant)

    def draw(self, counts: Counts, rng: np.random.Generator) -> quadratic.DrawnScores:
        """N(x | 0, precision) at a precision drawn from the posterior."""
        dof, factor, _ = self._posterior(counts)
        drawn, log_det = wishart.draw_factors(dof, factor, rng)
        return quadratic.DrawnScores.make(
            self._form(drawn, np.ones(len(dof))), self._per_row() - 0.5 * log_det
        )

    def log_mode(self, counts: Counts) -> Array:
        """(dof - D - 1) / 2 (log det precision - D) at the mode, plus the constants of the rows."""
        dof, _, log_det = self._posterior(counts)
        worth, D = self._rows_worth(dof), self.n_features
        return (
            0.5 * worth * (D * np.log(worth) - log_det - D)
            + self._per_row() * counts["moments"][:, 0]
        )

    def _expected_precision(self, counts: Counts) -> tuple[Array, Array]:
        """E[precision] (K, D, D) in the frame, and rows (K,)."""
        dof, factor, _ = self._posterior(counts)
        return wishart.expected_precision(dof, factor), counts["moments"][:, 0]

    def learn(self, counts: Counts) -> ZeroMeanGaussian:
        """Learn `covariance`."""
        return wishart.learn_covariance(self, counts, self.scale)

    # ------------------------------------------------------------------------------ sweeps

    sweeps = True

    def live(self, counts: Counts) -> LiveWishart:
        """Counts, copied, with posteriors that follow them row by row."""
        return live_wishart(
            self.live_sums(counts), *self._prior(), -float(np.log(self.scale).sum())
        )

    def live_sums(self, counts: Counts) -> LiveSums:
        """Moments alone."""
        moments = np.array(counts["moments"])
        return LiveSums(moments, np.zeros((len(moments), self.n_features)))

    def can_leave(self, rows: Any) -> bool:
        """Whether none lacks some of its entries."""
        return n_partial(rows) == 0

    def live_rows(self, rows: Any) -> Array:
        """Complete rows (n, D) in the frame."""
        return complete_rows(rows, np.zeros(self.n_features), self.scale)

    def settle(self, live: LiveSums, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        return {"moments": live.moments}

    # ------------------------------------------------------------------------------- means, seeding

    def _covariance(self, counts: Counts) -> Array:
        dof, factor, _ = self._posterior(counts)
        return wishart.covariances(factor, self._rows_worth(dof), self.scale)

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Covariance (K, D, D) at the mode, in the user's units."""
        return {"covariance": self._covariance(counts)}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) log-det divergence: KL between Gaussians with mean zero."""
        a, b = first["covariance"], second["covariance"]
        return wishart.gaussian_divergence(np.zeros(a.shape[:2]), a, np.zeros(b.shape[:2]), b)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) log-det divergence of smoothed second moments; that of a row is B + z z'."""
        _, inverse_scale = self._prior()
        white = wishart.whiten(inverse_scale, rows[1 : 1 + self.n_features])
        return np.maximum(wishart.spiked_divergence(white, index, 1.0), 0.0)

    def divergences(self, rows: Array, indices: Array) -> Array:
        """(m, n) divergences from several rows; whitened once, with one matrix product."""
        _, inverse_scale = self._prior()
        white = wishart.whiten(inverse_scale, rows[1 : 1 + self.n_features])
        return wishart.spiked_divergences(white, indices, 1.0, 0.0)

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows drawn from the Student t predictive."""
        n_hat, factor, _ = self._posterior(counts)
        dof = n_hat + 1.0 - self.n_features
        root = factor / np.sqrt(dof)[:, None, None]
        noise = rng.standard_normal((len(labels), self.n_features))
        noise /= np.sqrt(rng.chisquare(dof[labels]) / dof[labels])[:, None]
        return np.einsum("nij,nj->ni", root[labels], noise) * self.scale

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Missing entries replaced by their regression on the others, averaged over components."""
        return quadratic.impute_full(
            self.mean_log(counts).form, rows, shares, np.zeros(self.n_features), self.scale
        )

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Covariance (K, D, D): posterior expectation."""
        return {"covariance": self._covariance(counts)}
