"""What a pool file tells of its embeddings, in the metadata of its schema: who made them, out of what, and how wide.

A pool file is Parquet with the columns ``id``, ``embedding``, one to show (``path``, ``text`` or ``image``), and what
else its source had. Distances mean something only among embeddings of one embedder, so shards that differ are refused.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

KEY = b"dubito"
"""Where the metadata of a schema has it."""
COLUMN = "embedding"


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Who made the embeddings of a pool file, and out of what.

    Examples
    --------
    >>> made = Embeddings("pixels", "1", 64, "path", "photos")
    >>> Embeddings.of(made.metadata()) == made, Embeddings.of({}), made.title
    (True, None, 'pixels (version 1, 64 wide)')
    """

    embedder: str
    version: str
    """Changes whenever its numbers would."""
    width: int
    shown: str
    """The column that a person is shown: ``path``, ``text`` or ``image``."""
    source: str
    """The folder that paths begin at, or the table: seen from the pool's own folder where it lies below that."""
    dubito: str = ""
    """The version of dubito that wrote it."""
    fingerprint: str = ""
    """Changes with the settings and the source."""

    @property
    def title(self) -> str:
        """What a message calls the embedder."""
        return f"{self.embedder} (version {self.version}, {self.width} wide)"

    def metadata(self) -> dict[bytes, bytes]:
        """As a schema keeps it."""
        return {KEY: json.dumps({"schema": 1, **asdict(self)}, sort_keys=True).encode()}

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> "Embeddings | None":
        """What a schema tells; None for a table of somebody else's. What is no such record raises ValueError."""
        text = (metadata or {}).get(KEY)
        if text is None:
            return None
        record = json.loads(text)
        kinds = {field.name: int if field.name == "width" else str for field in fields(cls)}
        if not isinstance(record, dict) or not all(type(record.get(name)) is kind for name, kind in kinds.items()):
            raise ValueError("what its metadata tells of the embeddings is no record of dubito's")
        return cls(**{name: record[name] for name in kinds})

    def root(self, path: str) -> str:
        """The folder in which the paths of a pool file begin, given where the file is."""
        place = os.path.join(os.path.dirname(os.path.abspath(path)), self.source)
        return place if os.path.isdir(place) else os.path.dirname(place)
