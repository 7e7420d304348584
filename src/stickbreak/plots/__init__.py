"""Pictures of fitted models, drawn with matplotlib.

A structure says which panels its models have (`panels_of`). A family says how its components look:
`draw_components` for a drawing of its own, `grid_of` for a heat map. All three are
`functools.singledispatch`, with which a new structure or family can register.
"""

from .alignment_panels import AlignedPair, draw_arcs, draw_jumps, draw_links
from .chain_panels import draw_durations, draw_strips, draw_transitions
from .components import draw_components, draw_members
from .figure import draw_figure, draw_panel
from .gaussians import GaussianShape, shape_of
from .heat_maps import Grid, grid_of
from .panels import Panel, panels_of
from .segment_panels import draw_laws
from .topic_panels import draw_documents, draw_topics
from .tree_panels import draw_dependencies, draw_rules, draw_tree
from .view import View

__all__ = [
    "AlignedPair",
    "GaussianShape",
    "Grid",
    "Panel",
    "View",
    "draw_arcs",
    "draw_components",
    "draw_dependencies",
    "draw_documents",
    "draw_durations",
    "draw_figure",
    "draw_jumps",
    "draw_laws",
    "draw_links",
    "draw_members",
    "draw_panel",
    "draw_rules",
    "draw_strips",
    "draw_topics",
    "draw_transitions",
    "draw_tree",
    "grid_of",
    "panels_of",
    "shape_of",
]
