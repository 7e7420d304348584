"""Links, probabilities, translations and pictures of a fitted aligner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Bitext, Links, Sequences, number_pairs
from stickbreak.data import symmetrize as join
from stickbreak.data.links import RULES
from stickbreak.errors import quoted
from stickbreak.families import Lexicon
from stickbreak.inference import workers
from stickbreak.inference.collapsed import own_given_others
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool
from stickbreak.reading import Rows, Schema, SentencePairs, open_pairs, read_pairs
from stickbreak.stats import Array
from stickbreak.structures import BagAlignment

from .base import Estimator
from .fitted import Fitted
from .reported_words import aligner_values, observe_pairs
from .views import Labeled, draw_view, make_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AlignerAnswers", "given_others", "links_of_pairs"]

NULL = "<NULL>"


def plot_alignment(
    self: AlignerAnswers,
    panel: str | None = None,
    X: Any = None,
    *,
    symmetrize: str | None = None,
    ax: Axes | None = None,
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    Parameters
    ----------
    panel : "alignment" (source words down, target words across, posteriors of links as colors),
        "arcs" (the same as lines between two rows of words), "trace" (the bound after each lap),
        or, of `HMMAligner`, "jumps". Default: all of them, as one figure; the first two only if
        X is given.
    X : one sentence pair (source, target), each a text or a list of words.
    symmetrize : as in `align`: which links are framed.
    ax : the Axes to draw one panel into. Default: those of a new figure.

    Returns
    -------
    The Axes of one panel, or the Figure of all.

    Examples
    --------
    >>> import stickbreak as sb
    >>> from matplotlib import pyplot as plt
    >>> pairs = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
    >>> ax = sb.IBM1().fit(pairs).plot("alignment", ("a house", "ein Haus"))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['NULL', 'a', 'house']
    >>> plt.close(ax.figure)
    """
    fitted = self._require_fitted()
    view = replace(make_view(self, fitted, panel, ax), unit="word", jumps=self._jumps_drawn())
    if X is not None:
        from stickbreak import plots

        (source, target), rule = number_pairs([X])[0], self._rule_of(symmetrize)
        if not source or not target:
            raise ValueError("a pair to draw needs words on both sides")
        drawn = plots.AlignedPair(
            source, target, self.predict_proba([X])[0], self.align([X], symmetrize=rule)[0], rule
        )
        view = replace(view, pair=drawn)
    return draw_view(view, panel, ax)


class AlignerAnswers(Estimator):
    """What an aligner says about sentence pairs, and about words."""

    lowercase: bool
    max_length: int

    def _number(
        self, X: Rows, fitted: Fitted | None, *, grows: bool = False, warns: bool = True
    ) -> tuple[SentencePairs, Schema]:
        """Numbered words of the pairs, with the vocabularies of a fit if there is one."""
        return read_pairs(
            open_pairs(X, self.verbose),
            None if fitted is None else fitted.schema,
            max_length=int(self.max_length),
            lowercase=self.lowercase,
            grows=grows,
            warns=warns,
        )

    def _reverse(self) -> Fitted:
        found = self._require_fitted().reverse
        if found is None:
            raise ValueError(
                "this aligner has one direction; fit it with directions='both' for links of both"
            )
        return found

    def _positions(
        self, fitted: Fitted, bitext: Bitext, *, warns: bool = True
    ) -> tuple[SentencePairs, Array]:
        """The usable pairs, and the source position (n,) of each of their target words."""
        pairs, _ = self._number(bitext, fitted, warns=warns)
        if not len(pairs.kept):
            return pairs, np.zeros(0, dtype=np.int64)
        with workers(self.n_jobs) as pool:
            return pairs, self._decode(fitted, fitted.potentials(), pairs.table.whole(), pool)

    def _links(self, fitted: Fitted, bitext: Bitext, *, warns: bool = True) -> Links:
        return links_of_pairs(*self._positions(fitted, bitext, warns=warns))

    @property
    def links_(self) -> Links:
        """Links of the pairs of the fit, both directions joined as `align` does by default.

        After collapsed fits each pair was inferred given all others, which aligns better than
        `align` with counts that include the pair: use these for the text that was fitted. They are
        not kept in files.
        """
        return self.fit_links(None)

    def fit_links(self, symmetrize: str | None = None) -> Links:
        """Links of the pairs of the fit, joined by another rule; see `links_` and `align`."""
        fitted, rule = self._require_fitted(), self._rule_of(symmetrize)
        if fitted.links is None:
            raise AttributeError("links of the fit are not kept in files; use align(pairs)")
        if rule == "forward":
            return fitted.links
        assert fitted.reverse is not None
        assert fitted.reverse.links is not None
        reverse = fitted.reverse.links.swapped()
        return reverse if rule == "reverse" else join(fitted.links, reverse, rule)

    def predict(self, X: Rows) -> list[Array]:
        """For each pair, an array (J,): source position of each target word from 0, -1 for NULL.

        The most probable one for each word. Words that the fit has not seen have the prior's mass,
        and may be linked by their position. Pairs that are empty or too long have no links.
        """
        fitted, bitext = self._require_fitted(), open_pairs(X, self.verbose)
        pairs, positions = self._positions(fitted, bitext)
        found = pairs.spread(_cut(positions, pairs.table.offsets), None)
        lengths = bitext.target.lengths
        return [np.full(lengths[s], -1) if f is None else f for s, f in enumerate(found)]

    def align(self, X: Rows, *, symmetrize: str | None = None) -> Links:
        """Links of each pair, as a sequence of sorted lists of (source, target) positions from 0.

        Parameters
        ----------
        X : pairs, as in `fit`.
        symmetrize : how the two directions are made one: "intersection", "union", "grow-diag",
            "grow-diag-final" or "grow-diag-final-and" (see `stickbreak.symmetrize`); "forward" and
            "reverse" give one of them. Default: "grow-diag-final-and", or "forward" if the model
            has one direction only.

        Returns
        -------
        Links; `links.lines()` gives Pharaoh lines.
        """
        fitted, rule = self._require_fitted(), self._rule_of(symmetrize)
        bitext = open_pairs(X, self.verbose)
        if rule == "forward":
            return self._links(fitted, bitext)
        reverse = self._links(self._reverse(), bitext.swapped(), warns=rule == "reverse").swapped()
        if rule == "reverse":
            return reverse
        return join(self._links(fitted, bitext), reverse, rule)

    def _rule_of(self, given: str | None) -> str:
        """How links are chosen: as asked for, or by default."""
        has_both = self._require_fitted().reverse is not None
        rule = given or ("grow-diag-final-and" if has_both else "forward")
        if rule not in ("forward", "reverse", *RULES):
            raise ValueError(
                f"unknown symmetrization {rule!r}; choose one of forward, reverse, "
                f"{', '.join(RULES)}"
            )
        if rule != "forward":
            self._reverse()
        return rule

    def _jumps_drawn(self) -> tuple[Array, Array] | None:
        """Widths of jumps and their probabilities, of models that have jumps."""
        return None

    def predict_proba(self, X: Rows) -> list[Array]:
        """For each pair, an array (J, I + 1): posterior of the links of each target word.

        Column 0 is NULL, column i + 1 source position i; rows sum to one. Pairs that are empty or
        too long have zeros.
        """
        fitted, bitext = self._require_fitted(), open_pairs(X, self.verbose)
        pairs, _ = self._number(bitext, fitted)
        values = self._posteriors(fitted, pairs) if len(pairs.kept) else iter(())
        found = pairs.spread(values, None)
        sizes = zip(bitext.target.lengths, bitext.source.lengths + 1, strict=True)
        return [np.zeros(size) if f is None else f for f, size in zip(found, sizes, strict=True)]

    def _posteriors(self, fitted: Fitted, pairs: SentencePairs) -> Iterator[Array]:
        batch, potentials = pairs.table.whole(), fitted.potentials()
        structure = fitted.local_model.structure
        assert isinstance(structure, BagAlignment)
        with workers(self.n_jobs) as pool:
            lanes = batch.lanes()
            flat = list(pool.map(partial(structure.link_posteriors, potentials), lanes))
        assert batch.offsets is not None
        assert batch.companion is not None
        rows, columns = np.diff(batch.offsets), np.diff(batch.companion.offsets) + 1
        ends = np.concatenate([[0], np.cumsum(rows * columns)])
        for part, n, m in zip(_cut(np.concatenate(flat), ends), rows, columns, strict=True):
            yield part.reshape(n, m)

    def score_samples(self, X: Rows) -> Array:
        """(S,) log probability of each target sentence given its source, at posterior means.

        NaN for pairs that are empty or too long.
        """
        fitted, bitext = self._require_fitted(), open_pairs(X, self.verbose)
        pairs, _ = self._number(bitext, fitted)
        found = np.full(bitext.n_pairs, np.nan)
        if len(pairs.kept):
            with workers(self.n_jobs) as pool:
                found[pairs.kept] = fitted.model.log_evidence(
                    fitted.predictive(), pairs.table.whole(), pool
                )
        return found

    def score(self, X: Rows, y: object = None) -> float:
        """Mean log probability of a target word given the source sentence, in nats."""
        bitext = open_pairs(X, self.verbose)
        scores = self.score_samples(bitext)
        is_scored = np.isfinite(scores)
        n_words = int(bitext.target.lengths[is_scored].sum())
        if not n_words:
            raise ValueError(f"{bitext.name} has no pair to score")
        return float(scores[is_scored].sum() / n_words)

    # ------------------------------------------------------------------------------------- readers

    @property
    def source_words_(self) -> Array:
        """(K,) source vocabulary, `<NULL>` first: the rows of `translations_`."""
        return np.array([NULL, *(self._require_fitted().schema.source_names or ())], dtype=object)

    @property
    def target_words_(self) -> Array:
        """(V,) target vocabulary: the columns of `translations_`."""
        return self._require_fitted().schema.name_array

    @property
    def translations_(self) -> Any:
        """(K, V) posterior mean probability of each target word by source word, as a CSR matrix.

        It holds the pairs of words that occur together. A row lacks the prior's mass of all others,
        which every other target word shares equally.
        """
        return self._translations(self._require_fitted())

    def _translations(self, fitted: Fitted) -> Any:
        family = fitted.model.family
        assert isinstance(family, Lexicon)
        found = family.translations(fitted.counts)
        return found[: family.n_words - 1, : family.n_symbols - 1]

    def top_translations(self, word: str | None, n: int = 10) -> list[tuple[str, float]]:
        """The most probable translations of a source word, with their probabilities.

        word : of the source language; None for NULL, whose words have no counterpart.
        """
        require_whole(n=n)
        fitted = self._require_fitted()
        row = 0 if word is None else self._find(word, fitted) + 1
        line = self._translations(fitted)[[row]].tocoo()
        order = np.lexsort((line.col, -line.data))[:n]
        names = fitted.schema.names or ()
        return [(names[line.col[at]], float(line.data[at])) for at in order]

    def _find(self, word: str, fitted: Fitted) -> int:
        """Number of a source word."""
        names = fitted.schema.source_names or ()
        wanted = word.lower() if self.lowercase and isinstance(word, str) else word
        try:
            return names.index(wanted)
        except ValueError:
            raise ValueError(
                f"{quoted(str(word))} is not in the source vocabulary of {len(names):,} words; "
                "capitals count" + ("" if not self.lowercase else " for nothing")
            ) from None

    @property
    def null_share_(self) -> float:
        """Posterior mean share of target words that are linked to NULL."""
        fitted = self._require_fitted()
        null, linked = fitted.counts["null"]
        return float(null / (null + linked))

    def _column_names(self, fitted: Fitted) -> list[str]:
        return list(fitted.schema.names or ())

    def _dataset_values(self, fitted: Fitted) -> Labeled:
        return {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.input_tags.allow_nan = False
        return tags

    plot = plot_alignment
    _report_values = aligner_values
    _observe = observe_pairs
    _names_rows = False


def links_of_pairs(pairs: SentencePairs, places: Array) -> Links:
    """Links of all pairs of the bitext; places (n,) : positions of the words of the kept ones."""
    assert pairs.table.offsets is not None
    found = Links.of_words(places, pairs.table.offsets)
    counts = np.zeros(pairs.bitext.n_pairs, dtype=np.int64)
    counts[pairs.kept] = np.diff(found.offsets)
    return Links(found.positions, np.concatenate([[0], np.cumsum(counts)]))


def _cut(values: Array, offsets: Any) -> Iterator[Array]:
    """The values of each unit."""
    for lo, hi in pairwise(offsets.tolist()):
        yield values[lo:hi]


def given_others(fitted: Fitted, lexicon: Lexicon, table: Sequences, pool: Pool) -> Array:
    """(n,) positions of all target words, of each pair given all others, batch by batch."""
    model = fitted.model
    found: list[Array] = []
    assert isinstance(model.structure, BagAlignment)
    for batch in table.batches():
        assert batch.offsets is not None
        assert batch.companion is not None
        linked = lexicon.link(batch.rows, batch.offsets, batch.companion)
        part = replace(batch, companion=linked)
        own = own_given_others(model, fitted.counts, fitted.params, part, pool)
        found.append(model.structure.places_of(part, own))
    return np.concatenate(found)
