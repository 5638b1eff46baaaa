"""Tables of texts and of pictures: every form, which column is meant, and every other column carried through."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MemoryLimit, MissingFile
from dubito.io import input_limit

from .conftest import embed


def columns_of(texts: list[str]) -> dict[str, list[object]]:
    n = len(texts)
    return {
        "id": [f"t{row}" for row in range(n)],
        "text": list(texts),
        "stars": list(range(n)),
        "price": [row / 2 for row in range(n)],
        "label": ["late" if row < 2 else None for row in range(n)],
    }


def write_table(path: Path, columns: dict[str, list[object]]) -> Path:
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    kind = path.suffix
    if kind == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif kind in (".feather", ".arrow"):
        feather.write_feather(pa.table(columns), path, chunksize=7)
    elif kind == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    elif kind == ".json":
        path.write_text(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
    else:
        mark = "\t" if kind == ".tsv" else ","
        lines = [mark.join("" if cell is None else str(cell) for cell in row) for row in rows]
        path.write_text("\n".join([mark.join(names), *lines]) + "\n")
    return path


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".feather", ".arrow"])
def test_every_form_of_a_table_gives_the_same_pool(tmp_path: Path, texts: list[str], kind: str) -> None:
    pool = embed(write_table(tmp_path / f"texts{kind}", columns_of(texts)))
    assert pool.ids.tolist() == [f"t{row}" for row in range(60)]
    assert pool.columns["text"].tolist() == texts
    assert pool.columns["stars"].tolist() == list(range(60))
    assert pool.columns["price"].tolist() == [row / 2 for row in range(60)]
    assert [label or None for label in pool.columns["label"].tolist()] == ["late"] * 2 + [None] * 58
    np.testing.assert_allclose(np.linalg.norm(pool.embedding, axis=1), 1, atol=1e-5)
    first = embed(write_table(tmp_path / "again.csv", columns_of(texts)))
    np.testing.assert_array_equal(first.embedding, pool.embedding)


def test_texts_of_one_sort_lie_together(tmp_path: Path, texts: list[str]) -> None:
    pool = embed(write_table(tmp_path / "texts.csv", columns_of(texts)))
    alike = pool.embedding @ pool.embedding.T
    same = np.arange(60)[:, None] % 3 == np.arange(60) % 3
    assert alike[same].mean() > alike[~same].mean() + 0.3


def test_rows_without_an_id_go_by_their_numbers(tmp_path: Path, texts: list[str]) -> None:
    pool = embed(write_table(tmp_path / "texts.csv", {"text": list(texts)}))
    assert pool.ids.tolist() == list(range(60))


def test_empty_and_endless_texts_are_left_out(tmp_path: Path, texts: list[str]) -> None:
    texts[3], texts[5], texts[7] = "", "   ", "ab " * 3_500_000
    pool = embed(write_table(tmp_path / "texts.jsonl", columns_of(texts)))
    assert len(pool) == 57
    assert pool.left_out == (
        ("t3", "has no text"),
        ("t5", "has no text"),
        ("t7", "has 10,500,000 letters, more than the 1,000,000 that are embedded"),
    )


def test_a_column_that_is_missing_is_reported_with_those_there_are(tmp_path: Path, texts: list[str]) -> None:
    path = write_table(tmp_path / "texts.csv", columns_of(texts))
    with pytest.raises(MissingFile, match=r"has no column 'txt'; did you mean 'text'.* one of id, text, stars"):
        embed(path, text="txt")
    with pytest.raises(MissingFile, match="has no column 'name'"):
        embed(path, id_column="name")
    with pytest.raises(InvalidArgument, match=r"text='stars' names a column .* that holds int64, not texts"):
        embed(path, text="stars")
    with pytest.raises(InvalidArgument, match="both given"):
        embed(path, text="text", image="text")


def test_two_columns_that_could_be_meant_are_asked_about(tmp_path: Path, texts: list[str]) -> None:
    path = write_table(tmp_path / "t.csv", {"headline": list(texts), "story": list(texts)})
    with pytest.raises(MissingFile, match=r"name the column to embed .* headline \(string\), story \(string\)"):
        embed(path)
    pool = embed(path, text="story")
    assert list(pool.columns) == ["text", "headline"]


def test_a_column_whose_name_means_something_else_in_a_pool_is_renamed(tmp_path: Path, texts: list[str]) -> None:
    columns: dict[str, list[object]] = {"key": list(range(60)), "id": ["x"] * 60, "note": list(texts)}
    columns |= {"text": ["old"] * 60, "embedding": [[1.0]] * 60}
    path = write_table(tmp_path / "t.parquet", columns)
    pool = embed(path, text="note", id_column="key")
    assert pool.ids.tolist() == list(range(60))
    assert list(pool.columns) == ["text", "id_source", "text_source", "embedding_source"]
    assert any("'id' is called 'id_source'" in note for note in pool.notes)


def test_ids_that_repeat_are_refused(tmp_path: Path, texts: list[str]) -> None:
    columns = columns_of(texts)
    columns["id"][9] = "t3 "
    with pytest.raises(InvalidData, match=r"repeats the id 't3' \(rows 3 and 9\)"):
        embed(write_table(tmp_path / "texts.jsonl", columns))


def test_a_line_that_is_no_json_is_left_out_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"text {row}", "stars": row}) for row in range(1100)]
    lines[3], lines[7], lines[1050] = '{"text": "cut', "[7]", '{"text": "a", "text": "b"}'
    path = tmp_path / "t.jsonl"
    path.write_text("\n" + "\n".join(lines) + "\n")
    pool = embed(path, out=tmp_path / "pool.parquet")
    kept = [row for row in range(1100) if row not in (3, 7, 1050)]
    table = pq.read_table(tmp_path / "pool.parquet")
    assert table.column("id").to_pylist() == table.column("stars").to_pylist() == kept
    assert [(each.id, each.problem.split(" (")[0]) for each in pool.left_out] == [
        ("line 5", "is not valid JSON"),
        ("line 9", "is not an object with at least one name"),
        ("line 1052", "is not valid JSON"),
    ]
    again = embed(path, out=tmp_path / "pool.parquet")
    assert again.left_out == pool.left_out


def test_cells_keep_their_types_and_what_is_mixed_becomes_text(tmp_path: Path) -> None:
    rows = [{"text": "a", "ok": True, "any": 1, "size": 1.5}, {"text": "b", "ok": None, "any": ["x", 2]}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = embed(tmp_path / "t.jsonl", text="text")
    assert [pool.columns[name].tolist() for name in ("ok", "any")] == [[True, None], ["1", '["x", 2]']]
    (tmp_path / "t.csv").write_text("text,stars,price\na,1,0.5\nb,,NA\n")
    embed(tmp_path / "t.csv", out=tmp_path / "p.parquet")
    found = pq.read_table(tmp_path / "p.parquet")
    assert [found.column(name).to_pylist() for name in ("stars", "price")] == [[1, None], [0.5, None]]


def test_categories_and_extensions_become_what_they_are_made_of(tmp_path: Path) -> None:
    story = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', '"b"']))
    table = pa.table({"text": pa.array(["one", "two"]).dictionary_encode(), "story": story})
    feather.write_feather(table, tmp_path / "t.feather")
    pool = embed(tmp_path / "t.feather", text="text")
    assert pool.columns["text"].tolist() == ["one", "two"]
    assert pool.columns["story"].tolist() == ['{"a": 1}', '"b"']


def test_a_batch_of_feather_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"text": ["a" * 1000] * 3000}), tmp_path / "t.feather", compression="zstd")
    with input_limit(10**6), pytest.raises(MemoryLimit, match=r"'a batch' of .*t.feather takes 3.01 MB of memory"):
        embed(tmp_path / "t.feather")


def picture_bytes(row: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (6, 5), (row, 2 * row, 255 - row)).save(buffer, "PNG")
    return buffer.getvalue()


def test_pictures_as_bytes_stay_in_the_pool_to_be_shown(tmp_path: Path) -> None:
    pictures: list[object] = [picture_bytes(row) for row in range(20)]
    pictures[4], pictures[5] = None, b"damaged"
    path = write_table(tmp_path / "p.parquet", {"photo": pictures, "label": ["a"] * 20})
    pool = embed(path)
    assert pool.width == 6 * 5 * 3
    assert pool.left_out == (("4", "has no picture"), ("5", "is not a picture of a known format"))
    assert pool.columns["image"][0] == pictures[0]
    np.testing.assert_allclose(pool.embedding[0, :3], [0, 0, 1], atol=1e-6)


def test_paths_of_pictures_begin_where_the_table_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for row in range(3):
        (tmp_path / "in" / f"{row}.png").write_bytes(picture_bytes(row))
    names: list[object] = ["in/0.png", "in/1.png", "in/2.png", "in/9.png"]
    pool = embed(write_table(tmp_path / "t.csv", {"file": names, "caption": ["a cat", "b", "c", "d"]}))
    assert pool.columns["path"].tolist() == names[:3]
    assert pool.left_out == (("3", "does not exist"),)


def test_the_column_of_pictures_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(picture_bytes(0))
    path = write_table(tmp_path / "t.csv", {"photo": ["0.png"], "where": ["./0"], "stars": [3]})
    pool = embed(path, image="where")
    assert pool.columns["path"].tolist() == ["./0"]
    with pytest.raises(InvalidArgument, match=r"image='stars' names a column .* that holds int64, not pictures"):
        embed(path, image="stars")


def save_dataset(folder: Path, table: pa.Table, features: dict[str, object]) -> Path:
    """As ``datasets.Dataset.save_to_disk`` writes it."""
    folder.mkdir(parents=True)
    files = [f"data-{part:05d}-of-00002.arrow" for part in range(2)]
    half = len(table) // 2
    for name, part in zip(files, (table.slice(0, half), table.slice(half)), strict=True):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(part, max_chunksize=7)
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    state = {"_data_files": [{"filename": name} for name in files], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_a_data_set_of_hugging_face_is_read_without_its_package(tmp_path: Path, texts: list[str]) -> None:
    table = pa.table({"text": texts, "label": [0, 1, -1] * 20})
    features = {"text": {"dtype": "string", "_type": "Value"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}
    pool = embed(save_dataset(tmp_path / "saved", table, features))
    assert pool.columns["text"].tolist() == texts
    assert pool.columns["label"].tolist() == ["a", "b", None] * 20


def test_pictures_of_a_data_set_of_hugging_face(tmp_path: Path) -> None:
    records = [{"bytes": picture_bytes(row), "path": None} for row in range(9)] + [None]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pool = embed(save_dataset(tmp_path / "saved", pa.table({"image": pa.array(records, kind)}), {}))
    assert pool.columns["image"].tolist() == [picture_bytes(row) for row in range(9)]
    assert pool.left_out == (("9", "has no picture"),)


def test_one_split_of_several_must_be_named(tmp_path: Path, texts: list[str]) -> None:
    save_dataset(tmp_path / "all" / "train", pa.table({"text": texts}), {})
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InvalidArgument, match=r"holds 2 splits; name one: .*train, .*test"):
        embed(tmp_path / "all")
    assert len(embed(tmp_path / "all" / "train")) == 60


@pytest.mark.parametrize("damage", ["cut", "state", "list", "nothing", "shuffled", "empty"])
def test_a_damaged_data_set_is_refused(tmp_path: Path, texts: list[str], damage: str) -> None:
    folder = save_dataset(tmp_path / "saved", pa.table({"text": texts}), {})
    if damage == "cut":
        data = (folder / "data-00000-of-00002.arrow").read_bytes()
        (folder / "data-00000-of-00002.arrow").write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        folder = save_dataset(tmp_path / "saved" / "inner", pa.table({"text": pa.array([], pa.string())}), {})
    else:
        text = {"state": "{", "list": "[1]", "nothing": "{}", "shuffled": '{"_indices_files": [{"filename": "i"}]}'}[
            damage
        ]
        (folder / "state.json").write_text(text)
    with pytest.raises(DubitoError, match="saved"):
        embed(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "text\n", "holds no rows"),
        ("a.csv", "id,text\na,b\nc,d,e\n", r"line 3 of .*a.csv has 3 fields instead of 2; if its first"),
        (
            "a.csv",
            "id,text\na,b\nc\n",
            "line 3 of .*a.csv has 1 fields instead of 2; fix or remove the line; put quotes around a field with ','",
        ),
        ("a.jsonl", '\n{"text"\n[1]\n', r"line 2 of .* is not valid JSON \(.*every line must be an object of JSON"),
        ("a.jsonl", "[1]\n", "line 1 of .* is not an object"),
        ("a.jsonl", "\n \n", "holds no rows"),
        ("a.json", "[1, 2, 3]", "holds no table; a table of texts or pictures has named columns"),
        ("a.parquet", "PAR1 and no more", "cannot be read as .parquet"),
        ("a.docx", "x", "has the suffix '.docx'"),
    ],
)
def test_a_damaged_table_is_one_error(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DubitoError, match=message):
        embed(tmp_path / name)
