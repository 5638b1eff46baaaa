"""Images with their classes: CIFAR-10, CIFAR-100 and SVHN as published, folders of pictures, and Parquet files.

Nothing is ever unpickled, no archive is unpacked to disk, and what is downloaded is used only once its checksum is
the published one.
"""

from dubito.experiments.images.download import Progress, PublishedFile
from dubito.experiments.images.loading import COLLECTIONS, default_folder, load_images
from dubito.experiments.images.record import ImageSet

__all__ = ["COLLECTIONS", "ImageSet", "Progress", "PublishedFile", "default_folder", "load_images"]
