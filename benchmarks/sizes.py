"""How large every row is, in full and in a quick run that only shows that everything works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """Pool rows, labeled rows, picks."""

    n: int
    m: int
    budget: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sweeps vary one number of a shape; the loop joins them up to a size that it can do in seconds."""

    repeats: int
    """At most so many runs of a contestant."""
    real: Shape
    real_beam: int
    beam_check: int
    """Picks over which a wide beam is compared with a float64 one."""
    peers: Shape
    slow_peers: Shape
    beams: tuple[int, ...]
    loop_beam: int
    map: Shape
    map_budgets: tuple[int, ...]
    pools: tuple[int, ...]
    loop_pool: int
    sweep: Shape
    """What a sweep over pools keeps."""
    budgets: tuple[int, ...]
    loop_budget: int
    labeled: tuple[int, ...]
    middle: Shape
    """What sweeps over budgets and labeled points keep."""


FULL = Sizes(
    repeats=5,
    real=Shape(45_000, 5_000, 5_000),
    real_beam=20,
    beam_check=150,
    peers=Shape(20_000, 1_000, 500),
    slow_peers=Shape(5_000, 200, 20),
    beams=(1, 2, 5, 10, 20, 50),
    loop_beam=20,
    map=Shape(1_000_000, 50_000, 10_000),
    map_budgets=(1_000, 3_000, 10_000),
    pools=(10_000, 30_000, 100_000, 300_000, 1_000_000),
    loop_pool=300_000,
    sweep=Shape(1_000_000, 1_000, 1_000),
    budgets=(100, 300, 1_000, 3_000, 10_000),
    loop_budget=3_000,
    labeled=(100, 1_000, 5_000, 20_000),
    middle=Shape(50_000, 5_000, 1_000),
)

QUICK = Sizes(
    repeats=2,
    real=Shape(3_000, 300, 100),
    real_beam=5,
    beam_check=20,
    peers=Shape(2_000, 100, 30),
    slow_peers=Shape(1_000, 50, 5),
    beams=(1, 2, 5),
    loop_beam=2,
    map=Shape(20_000, 1_000, 200),
    map_budgets=(20, 200),
    pools=(1_000, 5_000, 20_000),
    loop_pool=5_000,
    sweep=Shape(20_000, 100, 50),
    budgets=(10, 50, 200),
    loop_budget=50,
    labeled=(20, 300),
    middle=Shape(3_000, 300, 50),
)
