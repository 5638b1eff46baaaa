"""The map fits the items to the view, also if one is far from all others."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from web.browser.person import Person
from web.browser.server import Server

SPREAD = """() => {
  const canvas = document.querySelector("canvas");
  const context = canvas.getContext("2d");
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const rows = new Set(), columns = new Set();
  for (let at = 0; at < data.length / 4; at += 1) {
    if (data[4 * at + 3]) { rows.add(Math.floor(at / canvas.width)); columns.add(at % canvas.width) }
  }
  return [columns.size / canvas.height, rows.size / canvas.height];
}"""


def test_one_far_item_does_not_make_the_others_small(
    serve: Callable[..., Server], come: Callable[..., Person], tmp_path: Path
) -> None:
    features = np.random.default_rng(0).normal(size=(400, 4)) * [3.0, 3.0, 1.0, 1.0]
    features[5] = 1e5
    np.savez(tmp_path / "rows.npz", features=features)
    person = come(serve(str(tmp_path / "rows.npz"), "--classes", "a,b"), "ann")
    person.page.evaluate(
        "() => { const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind === 'webgl2' ? null : get.call(this, kind, ...rest) } }"
    )
    person.page.keyboard.press("m")
    person.page.wait_for_selector(".surface[data-drawn='2d']")
    across, down = person.page.evaluate(SPREAD)
    assert across > 0.3
    assert down > 0.3
