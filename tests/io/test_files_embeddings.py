"""Pool files: Parquet that tells who made its embeddings, alone or in shards, and read by every command."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dubito.errors import InvalidData
from dubito.io import open_source, read_pool
from dubito.io.formats.parquet import KEY, Embeddings

MADE = Embeddings("pixels", "1", 2, "path", "photos", "0.1.0", "f00")
VECTORS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype=np.float32)


def pool_file(path: Path, made: Embeddings | None = MADE, names: tuple[str, ...] = ("a", "b", "c")) -> str:
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 2)
    columns = {"id": list(names), "embedding": embedding, "path": [f"{name}.png" for name in names]}
    table = pa.table({**columns, "tags": [[1, 2]] * 3, "size": [1, 2, 3]})
    pq.write_table(table.replace_schema_metadata({} if made is None else made.metadata()), path)
    return str(path)


def test_a_pool_file_tells_who_embedded_it_and_where_its_pictures_are(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    source = open_source(pool_file(tmp_path / "pool.parquet"))
    assert source.embedder == "pixels (version 1, 2 wide)"
    assert source.root == str(tmp_path / "photos")
    assert open_source(pool_file(tmp_path / "other.parquet", None)).embedder == ""


def test_the_embedding_is_the_features_also_beside_other_lists(tmp_path: Path) -> None:
    pool = read_pool(pool_file(tmp_path / "pool.parquet"))
    np.testing.assert_array_equal(np.asarray(pool.features[:]), VECTORS)
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b", "c"]
    assert pool.feature_names == ()


def test_a_folder_of_pool_files_of_one_embedder_is_one_pool(tmp_path: Path) -> None:
    pool_file(tmp_path / "part-0.parquet")
    pool_file(tmp_path / "part-1.parquet", names=("d", "e", "f"))
    pool = read_pool(str(tmp_path))
    assert pool.source.embedder == MADE.title
    assert pool.ids is not None
    assert pool.ids.tolist() == list("abcdef")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Embeddings("words", "1", 2, "path", "photos"), "words (version 1, 2 wide)"),
        (Embeddings("pixels", "2", 2, "path", "photos"), "pixels (version 2, 2 wide)"),
        (None, "an unknown embedder"),
    ],
)
def test_a_folder_of_two_embedders_is_refused_by_name(tmp_path: Path, other: Embeddings | None, named: str) -> None:
    pool_file(tmp_path / "part-0.parquet")
    pool_file(tmp_path / "part-1.parquet", other, names=("d", "e", "f"))
    with pytest.raises(InvalidData, match="embed both with one embedder") as refused:
        read_pool(str(tmp_path))
    assert f"part-1.parquet was embedded by {named}" in str(refused.value)


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"embedder": "pixels"}', b'{"schema": 1, "width": "2"}'])
def test_damaged_words_on_the_embedder_are_refused(tmp_path: Path, text: bytes) -> None:
    path = Path(pool_file(tmp_path / "pool.parquet"))
    pq.write_table(pq.read_table(path).replace_schema_metadata({KEY: text}), path)
    with pytest.raises(InvalidData, match=r"pool\.parquet cannot be read"):
        open_source(str(path))
