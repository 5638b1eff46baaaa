"""The paper's figures, tables and claims: a TOML file for each, and what measures it.

`exhibits` lists them; `Exhibit.build` gives the study, whose finding knows whether the claim held.
"""

from dubito.paper.exhibits import (
    Exhibit,
    Measured,
    choose_exhibits,
    exhibits,
    measure,
    read_measured,
    shipped,
    write_measured,
)
from dubito.paper.verdicts import Finding, Study, Verdict

__all__ = [
    "Exhibit",
    "Finding",
    "Measured",
    "Study",
    "Verdict",
    "choose_exhibits",
    "exhibits",
    "measure",
    "read_measured",
    "shipped",
    "write_measured",
]
