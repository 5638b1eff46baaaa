"""The progress bar and the streams a command may find itself with."""

import io
import os
import pty
import sys

import pytest

from dubito.cli import main
from dubito.cli.output import ProgressBar

from .conftest import read_terminal


def test_a_bar_appears_after_half_a_second_and_then_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with ProgressBar("picking") as bar:
            bar(1, 10, 2.5, 0.4)
            early = bar.drawn
            bar.phase("finding near pairs", 0.25, 0.6)
            assert bar.drawn is not None
            (task,) = bar.drawn[0].tasks
            assert (task.description, task.completed, task.total) == ("finding near pairs", 25.0, 100)
            bar(2, 10, 2.5, 2.0)
            bar(4, 10, None, 4.0)
            late = bar.drawn
            assert early is None
            assert late is not None
            (task,) = late[0].tasks
            assert (task.completed, task.total, task.fields["rate"]) == (4, 10, "1/s")
    assert "picking" in read_terminal(ours)
    os.close(ours)


@pytest.mark.usefixtures("quiet")
def test_a_quiet_bar_never_appears() -> None:
    with ProgressBar("picking") as bar:
        bar(2, 10, 2.5, 2.0)
    assert bar.drawn is None


def test_a_stream_that_is_no_file_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["--version"]) == 0
    assert stream.getvalue().startswith("dubito ")
