"""What Ctrl-C must not fall into: picks and what they leave have to change together."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


def retry_on_interrupt(make: Callable[[], T]) -> tuple[T, bool]:
    """What a function makes, and whether Ctrl-C did not come: if it did, it was made anew. A second time ends it."""
    try:
        return make(), True
    except KeyboardInterrupt:
        return make(), False


class DeferInterrupt:
    """A block that Ctrl-C does not break: it is heard when the block is done, and only ``is_heard`` tells.

    Whoever presses it a second time is not kept waiting. Threads other than the first never hear it.
    """

    def __init__(self) -> None:
        self.is_heard = False
        self._before: Any = None
        self._given: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._before = handler
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is None:
            return
        signal.signal(signal.SIGINT, self._before)
        if self._given is not None and kind is None:
            try:
                self._before(*self._given)
            except KeyboardInterrupt:
                self.is_heard = True

    def raise_heard(self) -> None:
        """Ctrl-C now, if it was pressed."""
        if self.is_heard:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._given is not None:
            self._before(number, frame)
        self._given = number, frame
