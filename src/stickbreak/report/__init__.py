"""Pages about fitted models: one HTML file that needs no network.

`write_page` writes a `Subject`, plain values of a fitted model. A structure registers sections with
`sections_of`, facts with `facts_of` and checks with `checks_of`, a family its profile with
`profile_of`. One that registers nothing still gets a page: facts, weights, the table of components,
the history of the fit and its convergence.
"""

from . import (  # they register sections and checks
    chain_checks,  # noqa: F401
    chains,  # noqa: F401
    row_checks,  # noqa: F401
    sentences,  # noqa: F401
    tables,  # noqa: F401
    topic_checks,  # noqa: F401
    topics,  # noqa: F401
)
from .checking import checks_of, find_all
from .findings import Finding
from .markup import Markup, tag
from .page import Report, write_page
from .profiles import Profile, profile_of
from .replicas import Replica, stays_of
from .sections import CHAPTERS, Fact, Section, data_of, facts_of, sections_of
from .subject import Observed, Subject

__all__ = [
    "CHAPTERS", "Fact", "Finding", "Markup", "Observed", "Profile", "Replica", "Report", "Section",
    "Subject", "checks_of", "data_of", "facts_of", "find_all", "profile_of", "sections_of",
    "stays_of", "tag", "write_page",
]  # fmt: skip
