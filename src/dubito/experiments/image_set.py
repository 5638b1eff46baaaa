"""`ImageSet`: images of one size, their classes, and the images set apart for testing."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dubito.errors import InvalidData
from dubito.experiments.data import Dataset
from dubito.matrix import IntArray

ImageArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Images in 8-bit color and the class of each, with or without a test set.

    Examples
    --------
    >>> gray = np.full((4, 2, 2, 3), 128, dtype=np.uint8)
    >>> flags = ImageSet("flags", gray, np.array([0, 1, 0, 1]), ("red", "blue"), gray[:0], np.array([], dtype=np.int64))
    >>> flags.size, flags.has_test
    ((2, 2), False)
    """

    name: str
    images: ImageArray
    """(n, h, w, 3), red, green and blue last."""
    labels: IntArray
    """(n,) codes: places in `classes`."""
    classes: tuple[str, ...]
    test_images: ImageArray
    """(t, h, w, 3); no rows where there is no test set."""
    test_labels: IntArray
    """(t,)"""

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise InvalidData(
                f"{self.name} holds one class only ({self.classes[:1]})", hint="there is nothing to learn."
            )
        if not len(self.images):
            raise InvalidData(f"{self.name} holds no images.")
        _check_part(self, f"the images of {self.name}", self.images, self.labels)
        _check_part(self, f"the test images of {self.name}", self.test_images, self.test_labels)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def has_test(self) -> bool:
        """Whether there is anything to test on."""
        return len(self.test_labels) > 0

    def as_dataset(self) -> Dataset:
        """The same arrays, not copied, as what experiments run on; its `split` sets a test set apart."""
        return Dataset(self.name, self.images, self.labels, self.classes, self.test_images, self.test_labels)


def _check_part(images: ImageSet, what: str, pixels: ImageArray, labels: IntArray) -> None:
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (*images.size, 3):
        raise InvalidData(
            f"{what} have shape {pixels.shape} and type {pixels.dtype}",
            hint="they must be (n, height, width, 3) uint8, those of the test set as large as the others.",
        )
    if labels.shape != (len(pixels),):
        raise InvalidData(f"{what} are {len(pixels)} and their labels have shape {labels.shape}", hint="pass one each.")
    n_classes = len(images.classes)
    odd = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(odd):
        raise InvalidData(
            f"{what} have the label {labels[odd[0]]} at number {odd[0]}, and there are {n_classes} classes",
            hint=f"labels go from 0 to {n_classes - 1}.",
        )
