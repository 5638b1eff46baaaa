"""Images with their classes: CIFAR-10, CIFAR-100 and SVHN as published, folders of pictures, and Parquet files.

Nothing is ever unpickled, no archive is unpacked to disk, and what is downloaded is used only once its checksum is
the published one.
"""

from dubito.experiments.datasets.images.loading import COLLECTIONS, load_images
from dubito.experiments.datasets.images.record import ImageSet
from dubito.experiments.published.downloads import DownloadProgress, PublishedFile
from dubito.experiments.published.folders import default_folder

__all__ = ["COLLECTIONS", "DownloadProgress", "ImageSet", "PublishedFile", "default_folder", "load_images"]
