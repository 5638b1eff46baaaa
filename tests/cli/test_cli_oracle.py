"""Pairs of files by chance against an oracle that joins with pandas: picks are equal, or the pair is refused.

``DUBITO_PAIRS=2000`` tries so many; by default there are a hundred, and 300 in ``make test-all``.
"""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import dubito
from levels import examples

from .conftest import Program
from .pairs import Pair, make_pair

PAIRS = int(os.environ.get("DUBITO_PAIRS", max(100, examples(300))))
PARTS = 4
BUDGET = 2


def expected(pair: Pair) -> list[int] | None:
    """The picks of the library, of rows joined by pandas; None where nothing is left or nothing fits."""
    features, wanted = pair.features, pair.wanted
    if wanted is None:
        return None
    if pair.role == "probabilities":
        chosen = dubito.select(features, BUDGET, probabilities=wanted)
    elif pair.role == "logits":
        chosen = dubito.select(features, BUDGET, logits=wanted)
    elif pair.role == "doubt":
        chosen = dubito.select(features, BUDGET, doubt=wanted[:, 0])
    else:
        mask = np.isin(np.arange(len(features)), wanted)
        if (mask if pair.role == "candidates" else ~mask).sum() < BUDGET:
            return None
        named = {"labeled": mask} if pair.role == "labeled" else {"candidates": mask}
        labeled, candidates = named.get("labeled"), named.get("candidates")
        chosen = dubito.select(features, BUDGET, labeled=labeled, candidates=candidates, strategy="coreset")
    return list(map(int, chosen.indices))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_of_files_is_joined_as_pandas_joins_it_or_refused(run: Program, tmp_path: Path, part: int) -> None:
    described: Counter[str] = Counter()
    for seed in range(part, PAIRS, PARTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        pair = make_pair(folder, seed)
        strategy = () if pair.role in ("probabilities", "logits", "doubt") else ("--strategy", "coreset")
        options = (f"--{pair.role}", pair.beside, "--standardize", "no", "--json")
        ran = run("select", pair.pool, "--budget", str(BUDGET), *options, *strategy)
        wanted = expected(pair)
        if ran.code:
            assert ran.code in (2, 3), f"{pair.described}: {ran.err}"
            assert ran.err.splitlines()[-1].startswith("dubito: error: "), pair.described
            assert (ran.out, "fault in dubito" in ran.err) == ("", False), pair.described
            described["refused, rightly" if wanted is None else "refused, though pandas joins them"] += 1
            continue
        found = [pick["index"] for pick in json.loads(ran.out)["picks"]]
        assert found == wanted, f"{pair.described}: {ran.err}"
        described["joined"] += 1
    assert described["joined"] > described["refused, though pandas joins them"], described
    if "DUBITO_PAIRS" in os.environ:
        print(dict(described))
