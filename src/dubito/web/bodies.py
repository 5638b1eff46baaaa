"""What requests may say and answers do say, as the OpenAPI description has it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[
    str, Field(min_length=1, max_length=200, description="Chosen by the client; sent again, nothing doubles.")
]
Row = Annotated[int, Field(ge=0, le=2**53 - 1, description="The row of the pool.")]


class Strict(BaseModel):
    """No field but those that are known, and none of another type."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


class GivenLabel(Strict):
    """A label, or with class null a skip."""

    key: Key
    row: Row
    label: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(alias="class")
    guess_seen: bool = False
    review: bool = Field(default=False, description="Whether it settles a label that the model doubted.")
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, strict=False)] | None = None


class OneLabel(GivenLabel):
    """The same, and who says it."""

    annotator: Name
    round: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


class ManyLabels(Strict):
    """Labels that are kept all together or not at all."""

    annotator: Name
    labels: Annotated[list[GivenLabel], Field(min_length=1, max_length=500)]


class Undo(Strict):
    """Whose last answer is taken back."""

    key: Key
    annotator: Name


class NewClass(Strict):
    """A class more."""

    name: Name
    key: Key | None = None


class Changes(Strict):
    """Other guidelines or settings; what is left out stays."""

    guidelines: Annotated[str, Field(max_length=20_000)] | None = None
    batch: Annotated[int, Field(ge=1, le=10_000)] | None = None
    overlap: Annotated[int, Field(ge=1, le=100)] | None = None
    audit: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=False)] | None = None


class Restriction(Strict):
    """What may be asked for."""

    mode: Literal["only", "exclude", "clear"]
    rows: Annotated[list[Row], Field(max_length=2_000_000)] = []


class Release(Strict):
    """Who has gone."""

    annotator: Name


class Refusal(BaseModel):
    """What went wrong, and the mend."""

    error: str


class LabelAnswer(BaseModel):
    """An event that is on the disk."""

    event: int
    labelled: int
