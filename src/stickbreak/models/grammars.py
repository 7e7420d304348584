"""Models of trees: grammars over tables of rules, dependency trees over valence tables."""

from __future__ import annotations

from typing import Any

from stickbreak.families.base import BaseFamily
from stickbreak.families.listed import ListedWords
from stickbreak.priors import (
    DirichletRules,
    HDPRules,
    ListedRules,
    SlotTables,
    TableRoot,
    TableRules,
    ValenceRows,
)
from stickbreak.structures import Annotation, Dependency, SlotTemplates, TableTree, Tree

from .base import Model

__all__ = [
    "annotated_grammar",
    "dependency_model",
    "finite_grammar",
    "hdp_grammar",
    "hdp_rules",
    "template_grammar",
]


def annotated_grammar(family: ListedWords, *, prune: float = 1e-5, **rules: Any) -> Model:
    """Subtypes of the symbols of listed rules; keywords are those of ListedRules."""
    listing = family.listing
    return Model(Annotation(listing, prune), family, ListedRules(listing, **rules), "subtype")


def dependency_model(family: BaseFamily, *, max_length: int = 60, **rows: Any) -> Model:
    """The dependency model with valence over given tags; keywords are those of ValenceRows."""
    return Model(Dependency(max_length), family, ValenceRows(**rows), "tag")


def finite_grammar(family: BaseFamily, **rules: Any) -> Model:
    """Rules ~ Dirichlet; keywords are those of DirichletRules."""
    return Model(Tree(), family, DirichletRules(**rules), "category")


def hdp_grammar(family: BaseFamily, **rules: Any) -> Model:
    """Rules ~ Dirichlet(concentration b b'), b ~ sticks; keywords are those of `hdp_rules`."""
    prior = hdp_rules(**rules)
    structure = TableTree() if isinstance(prior, TableRules) else Tree()
    return Model(structure, family, prior, "category")


def hdp_rules(root: Any = "beta", **rules: Any) -> HDPRules | TableRules:
    """Rules around the root that is named; keywords are those of HDPRules, or of TableRules."""
    if root == "tables" or isinstance(root, TableRoot):
        return TableRules(root=TableRoot() if root == "tables" else root, **rules)
    if root not in ("beta", "point"):
        raise ValueError(f"root must be 'beta', 'point' or 'tables'; got {root!r}")
    return HDPRules(root=root, **rules)


def template_grammar(family: BaseFamily, *, max_segment: int = 10, **rows: Any) -> Model:
    """Strings of given letters in slots of templates; keywords are those of SlotTables."""
    prior = SlotTables(**rows)
    return Model(SlotTemplates(prior.templates, max_segment), family, prior, "name")
