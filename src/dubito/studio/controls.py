"""The labelling config of a project, read before anything is sent: which control takes a class, and which classes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dubito.errors import InvalidArgument
from dubito.files.entries import nearest

MULTIPLE = re.compile(r"<Choices\b[^>]*\bchoice\s*=\s*[\"']multiple[\"']")
MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Control:
    """The choices of a project: one class an item."""

    name: str
    shows: str
    """The name of the tag that shows the item."""
    kind: str
    """``text`` or ``image``: what that tag shows."""
    field: str
    """Where in an item's data it finds that."""
    choices: tuple[str, ...]
    """The classes; none where each item brings its own."""

    def result(self, label: str) -> list[dict[str, object]]:
        """A guess as an annotation has it."""
        value = {"choices": [label]}
        return [{"from_name": self.name, "to_name": self.shows, "type": "choices", "value": value}]

    def check_label(self, label: str) -> None:
        """Refuse a class that people could not choose: the server takes it, and shows nothing."""
        if self.choices and label not in self.choices:
            shown = ", ".join(self.choices[:MOST_SHOWN]) + (", ..." if len(self.choices) > MOST_SHOWN else "")
            mend = f"there are {shown};{nearest(label, self.choices)} add a Choice to the config, or mend the label."
            raise InvalidArgument(f"the class {label!r} is no choice of the project's labelling config", mend=mend)

    def check_kind(self, kind: str) -> None:
        """Refuse pictures for a project that shows texts, and the other way round."""
        if kind != self.kind:
            problem = f"the project shows {self.kind}s (${self.field}), and these items are {kind}s"
            raise InvalidArgument(problem, mend="pass another project, or --show COLUMN.")


def find_control(project: Mapping[str, Any]) -> Control:
    """The one control of choices that a project has; raises InvalidArgument where it has none, or several."""
    parsed = project.get("parsed_label_config") or {}
    found = {name: each for name, each in parsed.items() if each.get("type") == "Choices"}
    where = f"the labelling config of project {project.get('id')}"
    if len(found) != 1:
        has = "no <Choices>" if not found else f"{len(found)} <Choices> ({', '.join(sorted(found)[:MOST_SHOWN])})"
        raise InvalidArgument(f"{where} has {has}", mend="give it one, or let dubito make a project: --classes a,b.")
    if MULTIPLE.search(str(project.get("label_config", ""))):
        raise InvalidArgument(f"{where} lets people choose several classes", mend='set choice="single".')
    ((name, control),) = found.items()
    shown = [each for each in control.get("inputs") or [] if each.get("type") in ("Text", "Image")]
    if len(shown) != 1 or len(control.get("to_name") or []) != 1:
        raise InvalidArgument(f"{where} lets people choose for something else than one <Text> or <Image>")
    field = str(shown[0].get("value") or "").removeprefix("$")
    if not re.fullmatch(r"\w+", field):
        raise InvalidArgument(f"{where} shows {field!r}, which is no one field", mend='write value="$text".')
    attributes = control.get("labels_attrs") or {}
    choices = tuple(str((attributes.get(each) or {}).get("alias") or each) for each in control.get("labels") or [])
    return Control(name, control["to_name"][0], shown[0]["type"].lower(), field, choices)
