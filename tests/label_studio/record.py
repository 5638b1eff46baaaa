"""Record the answers of a real Label Studio to every scenario: python -m label_studio.record URL TOKENS.

Run in ``tests/`` against a server that holds none of the projects yet; TOKENS is a JSON file with the real tokens under
``owner``, ``second`` and ``personal``. The live tests make such a server: see ``tests/label_studio_live``.
"""

import json
import sys
import tempfile
from pathlib import Path

from label_studio.exchanges import ANSWERS, OWNER, PERSONAL, SECOND, Recorder, recording
from label_studio.scenarios import SCENARIOS, Facts


def record(name: str, upstream: str, tokens: dict[str, str]) -> Facts:
    """Play a scenario and write the tape."""
    play, faults = SCENARIOS[name]
    recorder = Recorder(
        upstream, {OWNER: tokens["owner"], SECOND: tokens["second"], PERSONAL: tokens["personal"]}, faults
    )
    with tempfile.TemporaryDirectory() as folder, recording(recorder) as url:
        facts = play(url, Path(folder))
    lines = [json.dumps(each._asdict(), ensure_ascii=False, sort_keys=True) for each in recorder.tape.exchanges]
    text = '{"server": "Label Studio 1.23.2", "exchanges": [\n' + ",\n".join(lines) + "\n]}\n"
    for real in tokens.values():
        assert real not in text
    ANSWERS.mkdir(exist_ok=True)
    (ANSWERS / f"{name}.json").write_text(text, encoding="utf-8")
    return facts


def main(upstream: str, tokens: str, *names: str) -> None:
    """All of them, or those that are named."""
    known = json.loads(Path(tokens).read_text(encoding="utf-8"))
    for name in names or SCENARIOS:
        print(name, record(name, upstream.rstrip("/"), known))


if __name__ == "__main__":
    main(*sys.argv[1:])
