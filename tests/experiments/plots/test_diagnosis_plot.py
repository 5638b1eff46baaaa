import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dubito.diagnosis import Diagnosis, diagnose
from dubito.errors import InvalidArgument, MissingFile, OutputExists
from dubito.experiments.plots import diagnosis_figure, save_figure, strategy_color
from dubito.experiments.plots.style import OKABE_ITO, STRATEGY_COLORS, new_figure, title


def describe_of(
    n: int, *, head: float | None = 0.4, doubt_power: float = 3.0, with_outcomes: bool = False
) -> Diagnosis:
    rng = np.random.default_rng(0)
    pool = rng.uniform(0.5, 2.0, size=(n + 1, 1))
    pool[0] = 0.0
    doubt = 0.25 * rng.random(n + 1) ** doubt_power * pool[:, 0]
    rows = np.arange(1, n + 1)
    return diagnose(
        pool,
        labeled=[0],
        doubt=doubt,
        head=None if head is None else [[0.0], [4.0 * head]],
        checked=rows if with_outcomes else None,
        wrong=(rng.random(n) < 0.3) if with_outcomes else None,
    )


def words(figure: Figure) -> str:
    axes = figure.axes[0]
    return "\n".join([axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)])


def test_the_figure_names_regions_bounds_and_radii() -> None:
    described = describe_of(200, with_outcomes=True)
    text = words(diagnosis_figure(described))
    assert "δ/δ* = " in text
    assert "quadratic\n100% of the pool" in text
    assert f"{described.lambda_c_data:.3g}" in text
    assert "head: " in text
    assert f"δ = {described.delta:.3g}" in text
    assert "200 pool points, 1 labeled" in text


def test_each_point_is_drawn_in_a_small_pool_and_hexagons_in_a_large_one() -> None:
    small, large = diagnosis_figure(describe_of(150)).axes[0], diagnosis_figure(describe_of(3_000)).axes[0]
    drawn = [len(np.asarray(each.get_offsets())) for each in small.collections]
    assert 150 in drawn
    counts = large.collections[0].get_array()
    assert counts is not None
    assert np.asarray(counts).sum() == 3_000


def test_without_a_head_no_quadratic_region_is_drawn() -> None:
    text = words(diagnosis_figure(describe_of(200, head=None)))
    assert "quadratic" not in text
    assert "head" not in text
    assert "undecided\n100% of the pool" in text
    assert "unknown without outcomes" in text


def test_the_bounds_end_where_doubt_would_pass_one() -> None:
    described = describe_of(200, head=0.8)
    ends = [float(np.asarray(line.get_xdata())[-1]) for line in diagnosis_figure(described).axes[0].lines]
    assert 1.0 / 0.8 in [pytest.approx(end) for end in ends]


@pytest.mark.parametrize("slope", [0.05, 0.3, 0.55, 1.0, 5.0])
@pytest.mark.parametrize("steeper", [1.0, 1.02, 1.15, 1.5, 3.0])
def test_the_names_of_two_bounds_can_both_be_read(slope: float, steeper: float) -> None:
    pool = np.linspace(0.0, 3.0, 60)[:, None]
    doubt = np.minimum(slope * pool[:, 0], 0.9)
    described = diagnose(pool, labeled=[0], doubt=doubt, head=[[0.0], [4.0 * slope * steeper]])
    figure = diagnosis_figure(described)
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts if "= " not in text.get_text()}
    assert sum("lambda_c" in text for text in boxes) == 2
    for (name, box), (other, another) in combinations(boxes.items(), 2):
        across = min(box.x1, another.x1) - max(box.x0, another.x0)
        up = min(box.y1, another.y1) - max(box.y0, another.y0)
        # The box of a name with a subscript is taller than its ink.
        assert across <= 0 or up <= 0.15 * box.height, (name, other)


def test_delta_star_is_marked_where_it_is_in_sight() -> None:
    pool = np.concatenate([[[0.0]], np.linspace(0.5, 40.0, 200)[:, None]])
    doubt = np.minimum(0.9, 0.1 * pool[:, 0])
    rows = np.arange(1, 201)
    described = diagnose(pool, labeled=[0], doubt=doubt, checked=rows, wrong=rows % 3 == 0)
    assert described.delta_star is not None
    assert f"δ* = {described.delta_star:.3g}" in words(diagnosis_figure(described))


DOUBTS = [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1e-30, 0.5]]
POOLS = [[[0.0], [0.0], [0.0]], [[0.0], [1e-9], [1e9]], [[0.0], [1.0], [1.0]]]
HEADS = [None, [[0.0], [0.0]], [[0.0], [1e9]]]
EXTREME = [
    pytest.param(POOLS[i], DOUBTS[j], HEADS[k], marks=pytest.mark.slow if (i + j + k) % 3 else ())
    for i, j, k in product(range(3), repeat=3)
]
"""Every combination; where the tests are quick, each pair of two of them once."""


@pytest.mark.parametrize(("pool", "doubt", "head"), EXTREME)
def test_extreme_pools_are_drawn_without_a_warning(
    pool: list[list[float]], doubt: list[float], head: list[list[float]] | None, tmp_path: Path
) -> None:
    described = diagnose(pool, labeled=[0], doubt=doubt, head=head)
    assert save_figure(diagnosis_figure(described), tmp_path / "extreme", formats=["png"])[0].stat().st_size > 5_000


def test_svg_and_png_are_written_whole_and_named_alike(tmp_path: Path) -> None:
    written = save_figure(diagnosis_figure(describe_of(50)), tmp_path / "pool.v2.png")
    assert [path.name for path in written] == ["pool.v2.svg", "pool.v2.png"]
    assert ElementTree.parse(written[0]).getroot().tag.endswith("svg")
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool.v2.png", "pool.v2.svg"]


def test_a_name_with_a_dot_keeps_it(tmp_path: Path) -> None:
    assert save_figure(new_figure()[0], tmp_path / "round.3", formats=["png"])[0].name == "round.3.png"


def test_a_file_that_exists_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "pool.png").write_text("mine")
    with pytest.raises(OutputExists, match=r"pool\.png exists; pass force=True"):
        save_figure(new_figure()[0], tmp_path / "pool")
    assert [path.name for path in tmp_path.iterdir()] == ["pool.png"]
    save_figure(new_figure()[0], tmp_path / "pool", force=True)
    assert (tmp_path / "pool.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_folder_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"nowhere.*make"):
        save_figure(new_figure()[0], tmp_path / "nowhere" / "pool")
    with pytest.raises(InvalidArgument, match=r"formats holds 'gif'; choose from svg, png"):
        save_figure(new_figure()[0], tmp_path / "pool", formats=["gif"])


def test_every_strategy_has_its_own_color_and_keeps_it() -> None:
    assert len(set(STRATEGY_COLORS.values())) == len(STRATEGY_COLORS)
    assert strategy_color("coreset") == OKABE_ITO["blue"]
    assert strategy_color("doubt-coreset:strength=0.5") == strategy_color("doubt-coreset")


def test_a_strategy_of_someone_elses_gets_a_color_that_no_known_one_has() -> None:
    foreign = strategy_color("their-idea")
    assert foreign == strategy_color("their-idea")
    assert foreign not in STRATEGY_COLORS.values()
    assert len(to_rgb(foreign)) == 3


def test_a_title_has_a_quieter_second_line_only_where_there_is_a_detail() -> None:
    _, axes = new_figure()
    title(axes, "Radii")
    assert [text.get_text() for text in axes.texts] == []
    title(axes, "Radii", "ten points")
    assert [text.get_text() for text in axes.texts] == ["ten points"]
    assert axes.get_title(loc="left") == "Radii"


def test_drawing_loads_no_pyplot_and_changes_no_setting() -> None:
    script = (
        "import sys, matplotlib as mpl\n"
        "settings = lambda: {k: mpl.rcParams[k] for k in mpl.rcParams if k != 'backend'}; before = settings()\n"
        "from dubito.diagnosis import diagnose; from dubito.experiments.plots import diagnosis_figure\n"
        "diagnosis_figure(diagnose([[0.0], [1.0]], labeled=[0], doubt=[0.0, 0.5])).canvas.draw()\n"
        "assert 'matplotlib.pyplot' not in sys.modules; assert settings() == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
