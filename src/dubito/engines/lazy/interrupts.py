"""Deferring Ctrl-C where picks and bounds must change together."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


def retry_on_interrupt(make: Callable[[], T]) -> tuple[T, bool]:
    """The result of ``make``, and False if it was interrupted. After the first Ctrl-C, it is called once more."""
    try:
        return make(), True
    except KeyboardInterrupt:
        return make(), False


class DeferInterrupt:
    """Context manager that defers Ctrl-C to the end of the block, where it only sets ``is_pending``.

    A second Ctrl-C interrupts at once. Only the main thread receives signals, so it does nothing in other threads.
    """

    def __init__(self) -> None:
        self.is_pending = False
        self._handler: Any = None
        self._signal: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            signal.signal(signal.SIGINT, self._defer)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._signal is not None and kind is None:
            try:
                self._handler(*self._signal)
            except KeyboardInterrupt:
                self.is_pending = True

    def raise_if_pending(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.is_pending:
            raise KeyboardInterrupt

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            self._handler(number, frame)
        self._signal = number, frame
