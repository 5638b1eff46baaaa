"""Rows that belong together: sentences of texts, and frames of videos."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dubito
from dubito.embedding.sentences import split_sentences
from dubito.errors import InvalidArgument, InvalidData


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Pay 3.50 now.Then go", ["Pay 3.50 now.Then go"]),
        ("e.g. this, i.e. that. Yes", ["e.g. this, i.e. that.", "Yes"]),
        ("(He left.) She\nstayed", ["(He left.)", "She", "stayed"]),
        ("これは。あれは？", ["これは。", "あれは？"]),
        ("  \n ", []),
    ],
)
def test_sentences_end_where_the_documentation_says(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_sentences_are_rows_with_their_text_as_group(tmp_path: Path) -> None:
    texts = {"a": "My card is late. Where is it?", "b": "", "c": "One fee.\nTwo fees. Why?"}
    lines = [json.dumps({"id": name, "body": text, "channel": name * 2}) for name, text in texts.items()]
    (tmp_path / "texts.jsonl").write_text("\n".join([*lines[:2], "broken", lines[2]]), encoding="utf-8")
    pool = dubito.embed(tmp_path / "texts.jsonl", split="sentences", text="body")
    assert pool.ids.tolist() == ["a#0", "a#1", "c#0", "c#1", "c#2"]
    assert pool.columns["text"].tolist() == ["My card is late.", "Where is it?", "One fee.", "Two fees.", "Why?"]
    assert pool.columns["document"].tolist() == ["a", "a", "c", "c", "c"]
    assert pool.columns["channel"].tolist() == ["aa", "aa", "cc", "cc", "cc"]
    assert [str(each).split()[0] for each in pool.left_out] == ["line", "b#0"]
    picked = dubito.select(pool.embedding, 1, groups=pool.columns["document"])
    assert picked.groups is not None
    assert picked.groups.names.tolist() == ["c"]


def test_texts_without_ids_are_called_by_their_rows(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\nOne. Two\nThree\n", encoding="utf-8")
    pool = dubito.embed(tmp_path / "texts.csv", split="sentences")
    assert pool.ids.tolist() == ["0#0", "0#1", "1#0"]
    assert pool.columns["document"].tolist() == ["0", "0", "1"]
    (tmp_path / "texts.csv").write_text("text,document\nOne. Two,x\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="has a column 'document'"):
        dubito.embed(tmp_path / "texts.csv", split="sentences", text="text")


def test_sentences_are_embedded_again_only_where_a_text_changed(tmp_path: Path) -> None:
    table, out = tmp_path / "texts.csv", tmp_path / "pool.parquet"
    table.write_text("id,text\na,One card. Two cards\nb,Three fees\n", encoding="utf-8")
    dubito.embed(table, out=out, split="sentences")
    table.write_text("id,text\na,One card. Four cards\nb,Three fees\n", encoding="utf-8")
    again = dubito.embed(table, out=out, split="sentences")
    assert again.n_before == 2
    assert again.changes is not None
    assert again.changes.changed == ("a#1",)


def test_frames_are_grouped_by_their_folder(tmp_path: Path) -> None:
    for video in ("one", "two"):
        (tmp_path / "frames" / video).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(np.full((9, 9), 40 * number, np.uint8)).save(tmp_path / "frames" / video / f"{number}.png")
    pool = dubito.embed(tmp_path / "frames", split="frames")
    assert pool.columns["folder"].tolist() == ["one"] * 3 + ["two"] * 3
    assert "label" not in pool.columns
    assert "6 pictures in 2 folders" in pool.notes[0]
    with pytest.raises(InvalidArgument, match=r"split=\W?sentences\W? is for texts"):
        dubito.embed(tmp_path / "frames", split="sentences")
    with pytest.raises(InvalidArgument, match="both given"):
        dubito.embed(tmp_path / "frames", split="frames", boxes="boxes.json")


def test_videos_are_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"")
    with pytest.raises(InvalidData, match=r"ffmpeg -i clip\.mp4"):
        dubito.embed(tmp_path, split="frames")
