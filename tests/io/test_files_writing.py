"""Picks out: every format, whole or not at all."""

import io
import json
import os
import resource
import stat
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dubito.core.problem import Configuration, Selection
from dubito.errors import DubitoError, InvalidArgument, MissingFile, OutputExists
from dubito.io import output_format, render_selection, save_selection, write_atomically
from dubito.matrix import AnyArray


def selection(
    indices: list[int], priorities: list[float] | None = None, ids: AnyArray | None = None, beams: int = 1
) -> Selection:
    rows = np.array(indices, dtype=np.int64)
    values = np.array(priorities if priorities is not None else [1.0] * len(indices), dtype=np.float64)
    leading = Configuration(rows, values, 0.5, float("inf"))
    return Selection(
        indices=rows,
        priorities=values,
        radius=0.5,
        uncertainty=float("inf"),
        configurations=(leading,) * beams,
        strategy="doubt-coreset",
        engine=None,
        seed=7,
        seconds=0.25,
        n_pool=100,
        ids=ids,
    )


ODD = selection([4, 2, 9], [float("inf"), 0.1, float("nan")], ids=np.array(["a,b", "c", 'd"']))


def test_csv_has_inf_and_an_empty_field_for_nan() -> None:
    assert render_selection(ODD, "csv") == (b'rank,index,id,priority\n1,4,"a,b",inf\n2,2,c,0.1\n3,9,"d""",\n')
    assert render_selection(selection([3]), "csv") == b"rank,index,priority\n1,3,1.0\n"


def test_json_is_strict_and_tells_the_run() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    content = json.loads(render_selection(ODD, "json"), parse_constant=refuse)
    picks = content.pop("picks")
    assert content == {
        "schema": 1,
        "strategy": "doubt-coreset",
        "engine": None,
        "seed": 7,
        "seconds": 0.25,
        "radius": 0.5,
        "uncertainty": None,
        "complete": True,
        "n_pool": 100,
    }
    assert picks[0] == {"rank": 1, "index": 4, "id": "a,b", "priority": None}
    assert picks[2]["priority"] is None


def test_json_of_a_beam_has_every_configuration() -> None:
    content = json.loads(render_selection(selection([1, 2], [float("inf"), 2.0], beams=2), "json"))
    expected = {"indices": [1, 2], "priorities": [None, 2.0], "radius": 0.5, "uncertainty": None}
    assert content["configurations"] == [expected, expected]


def test_jsonl_has_one_pick_a_line() -> None:
    lines = render_selection(ODD, "jsonl").decode().splitlines()
    assert [json.loads(line)["index"] for line in lines] == [4, 2, 9]
    assert '"priority": null' in lines[0]


def test_parquet_keeps_types() -> None:
    table = pq.read_table(io.BytesIO(render_selection(ODD, "parquet")))
    assert table.schema.names == ["rank", "index", "id", "priority"]
    assert table.schema.types == [pa.int64(), pa.int64(), pa.string(), pa.float64()]
    assert table.column("priority").to_pylist()[0] == float("inf")


def test_npy_holds_the_indices_alone() -> None:
    indices = np.load(io.BytesIO(render_selection(ODD, "npy")), allow_pickle=False)
    assert indices.dtype == np.int64
    assert indices.tolist() == [4, 2, 9]


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "picks.csv"
    path.write_text("precious")
    path.chmod(0o640)
    with pytest.raises(OutputExists, match=r"picks.csv exists; pass force=True to replace it"):
        save_selection(ODD, str(path))
    assert path.read_text() == "precious"
    save_selection(ODD, str(path), force=True)
    assert path.read_bytes() == render_selection(ODD, "csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_unknown_format_is_answered_with_the_known(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"picks.xlsx: suffix .xlsx is not known; use .csv, .json, .jsonl"):
        save_selection(ODD, str(tmp_path / "picks.xlsx"))
    with pytest.raises(InvalidArgument, match=r"picks: it has no suffix that gives the format; use .csv"):
        save_selection(ODD, str(tmp_path / "picks"))
    with pytest.raises(InvalidArgument, match=r"format='jsonll' is unknown; did you mean 'jsonl'\? known are csv"):
        output_format("picks.csv", "jsonll")
    assert list(tmp_path.iterdir()) == []


def test_a_format_given_beats_the_suffix(tmp_path: Path) -> None:
    save_selection(ODD, str(tmp_path / "picks.csv"), format="jsonl")
    assert (tmp_path / "picks.csv").read_bytes() == render_selection(ODD, "jsonl")


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "note"), b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "note").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_atomically(str(tmp_path / "link.csv"), b"new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_long_name_is_no_trouble(tmp_path: Path) -> None:
    name = "x" * 251 + ".csv"
    write_atomically(str(tmp_path / name), b"new")
    assert os.listdir(tmp_path) == [name]


def test_a_failed_rename_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "picks.csv").mkdir()
    with pytest.raises(InvalidArgument, match=r"picks.csv cannot be written: is a directory; choose another path"):
        save_selection(ODD, str(tmp_path / "picks.csv"))
    assert os.listdir(tmp_path) == ["picks.csv"]


def test_a_write_cut_short_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "picks.npy"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(DubitoError, match=r"picks.npy cannot be written: file too large\.") as caught:
            write_atomically(str(path), bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.exit_code == 1
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["picks.npy"]


def test_a_missing_or_closed_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"picks.csv cannot be written: its folder does not exist; create it first"):
        save_selection(ODD, str(tmp_path / "none" / "picks.csv"))
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match=r"picks.csv cannot be written: not a directory"):
        save_selection(ODD, str(tmp_path / "file" / "picks.csv"))
    (tmp_path / "closed").mkdir(mode=0o500)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(InvalidArgument, match=r"picks.csv cannot be written: permission denied"):
            save_selection(ODD, str(tmp_path / "closed" / "picks.csv"))
    finally:
        if root:
            os.seteuid(0)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "picks.csv"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    save_selection(ODD, str(pipe))
    reader.join(600)
    assert received == [render_selection(ODD, "csv")]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
