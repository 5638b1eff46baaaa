"""Configurations and the tree of their picks."""

import numpy as np

from dubito.core.problem import Problem
from dubito.doubt import beam_scores
from dubito.engines.lazy.configurations import NO_NODE, Leaf, Nodes, make_configuration, make_configurations


def test_configurations_made_together_equal_those_made_one_by_one() -> None:
    rng = np.random.default_rng(0)
    doubt = rng.choice([0.0, 0.3, 1.0, *rng.random(9)], 500)
    problem = Problem(
        rng.random((500, 2)), rng.random((3, 2)), np.arange(500), 130, doubt, doubt**2, beam_scores(doubt)
    )
    indices, squared, radii = (
        np.stack([rng.permutation(500)[:130] for _ in range(3)]),
        rng.random((3, 130)),
        [3.0, 2.0, 1.0],
    )
    found = make_configurations(problem, indices, squared, np.array(radii))
    for ours, *given in zip(found, indices, squared, radii, strict=True):
        alone = make_configuration(problem, *given)
        assert ours.indices.tolist() == alone.indices.tolist()
        assert ours.priorities.tobytes() == alone.priorities.tobytes()
        assert (ours.radius, ours.uncertainty) == (alone.radius, alone.uncertainty)


def test_a_beam_without_picks_or_without_doubt_has_no_uncertainty() -> None:
    problem = Problem(np.zeros((4, 2)), np.zeros((1, 2)), np.arange(4), 2)
    assert [
        each.uncertainty for each in make_configurations(problem, np.array([[0, 1]]), np.zeros((1, 2)), np.zeros(1))
    ] == [None]
    doubted = Problem(np.zeros((4, 2)), np.zeros((1, 2)), np.arange(4), 2, np.full(4, 0.5))
    nothing = np.empty((2, 0), dtype=np.int64)
    assert [each.uncertainty for each in make_configurations(doubted, nothing, np.zeros((2, 0)), np.zeros(2))] == [
        None,
        None,
    ]


def test_paths_equal_plain_lists_and_unused_nodes_are_dropped() -> None:
    rng, nodes = np.random.default_rng(1), Nodes()
    ends, picks = [NO_NODE] * 4, [list[int]() for _ in range(4)]
    for front in range(5):
        start = len(nodes)
        for step in range(20):
            parents, new = rng.integers(0, 4, 4), rng.integers(0, 999, 4)
            pick_priorities = np.asarray(new + 0.5, dtype=np.float64)
            numbers = nodes.add(new, np.array(ends)[parents], pick_priorities, new % 2 == 0)
            ends, picks = numbers.tolist(), [[*picks[parent], pick] for parent, pick in zip(parents, new, strict=True)]
            assert len(nodes) == start + 4 * (step + 1)
        leaves = [Leaf(end, 0, frozenset()) for end in ends]
        found = list(nodes.paths(leaves, start))
        assert [nodes.picks[path].tolist() for path, _ in found] == [each[20 * front :] for each in picks]
        assert all(before < start for _, before in found)
        used = np.unique(np.concatenate([path for path, _ in found]))
        ends = nodes.keep(used, start)(np.array(ends)).tolist()
        assert len(nodes) == start + len(used) < start + 80
    for (path, before), each in zip(nodes.paths([Leaf(end, 0, frozenset()) for end in ends]), picks, strict=True):
        assert before == NO_NODE
        assert nodes.picks[path].tolist() == each
        assert nodes.pick_priorities[path].tolist() == [pick + 0.5 for pick in each]
        assert nodes.is_exact[path].tolist() == [pick % 2 == 0 for pick in each]
