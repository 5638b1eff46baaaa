"""Take screenshots of the labeling page in Chromium, from `dubito label --demo` after 120 labels.

``python tools/docs/screenshots.py`` writes them to docs/images. It needs the extras ``label`` and ``page``, and
Chromium.
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 140_000
"""Maximum size of a picture file."""
TOKEN = "a-token-for-pictures-0123"
N_LABELS, ROUND_SIZE = 120, 20
WIDE, PHONE = (1280, 800), (390, 844)
SHOTS = (
    ("label-page", "label", "light", WIDE),
    ("label-page-dark", "label", "dark", WIDE),
    ("label-grid", "grid", "light", WIDE),
    ("label-map", "map", "light", WIDE),
    ("label-map-dark", "map", "dark", WIDE),
    ("label-curve", "curve", "light", WIDE),
    ("label-review", "review", "light", WIDE),
    ("label-phone", "label", "light", PHONE),
    ("label-phone-dark", "map", "dark", PHONE),
)
"""Name, view, color scheme and window size of each screenshot."""


def current_id(page: Page) -> str:
    """The id of the item on the page."""
    return page.wait_for_selector(".work:not(.is-coming) .caption .id").text_content() or ""


def label_items(page: Page, n_items: int, wrong: set[int]) -> None:
    """Label items with keys; the numbers in ``wrong`` get a wrong label, for the review to find."""
    classes = load_digits().target
    for number in range(n_items):
        before = current_id(page)
        match = re.search(r"(\d{4})", before)
        assert match
        answer = int(classes[int(match[1])])
        page.keyboard.press(str((answer + 5) % 10 if number in wrong else answer))
        page.wait_for_function("old => document.querySelector('.caption .id')?.textContent !== old", arg=before)


def mark_odd(page: Page) -> None:
    """Click every item of the grid that does not have the class of the question."""
    page.wait_for_selector(".tile")
    expected = page.locator(".question .said").text_content()
    for tile in page.locator(".tile").all():
        match = re.search(r"(\d{4})", tile.get_attribute("title") or "")
        if match and str(load_digits().target[int(match[1])]) != expected:
            tile.click()


def wait_for_round(page: Page) -> None:
    """Wait until no round is due or running, because a script labels faster than a person."""
    is_busy = """async () => {
      const { progress, model } = await (await fetch('/api/project')).json();
      return progress.done >= progress.of || model.state === 'fitting';
    }"""
    while page.evaluate(is_busy):
        page.wait_for_timeout(500)


def open_page(browser: Browser, address: str, scheme: str, size: tuple[int, int]) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, has_touch=size == PHONE
    )
    context.set_default_timeout(60_000)
    context.add_init_script("localStorage.setItem('dubito.annotator', 'ada')")
    page = context.new_page()
    page.goto(f"{address}?token={TOKEN}")
    current_id(page)
    return page


def take_screenshot(browser: Browser, address: str, name: str, view: str, scheme: str, size: tuple[int, int]) -> None:
    page = open_page(browser, address, scheme, size)
    page.goto(f"{address}#{view}")
    if view == "label":
        label_items(page, 1, set())
        page.keyboard.press("h")
        page.wait_for_selector(".guesses li")
    if view == "grid":
        mark_odd(page)
    if view == "map":
        page.wait_for_selector(".surface[data-drawn=webgl2]")
        if scheme == "dark":
            page.get_by_label("Label", exact=True).check()
    page.wait_for_timeout(1500)
    save(page.screenshot(), IMAGES / f"{name}.png")
    page.context.close()


def save(shot: bytes, path: Path) -> None:
    """Save a picture with 256 colors or fewer, which takes a third of the bytes and looks the same."""
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    for colors in (256, 128, 64, 32):
        picture.quantize(colors, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < MAX_BYTES:
            break
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "dubito", "label", "--demo", folder, "--audit", "10%", "--no-browser"]
        command += ["--port", "0", "--token", TOKEN]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        flags = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = open_page(browser, address, "light", WIDE)
        for number in range(N_LABELS // ROUND_SIZE):
            label_items(page, ROUND_SIZE, wrong={7} if number in (1, 3) else set())
            wait_for_round(page)
        page.context.close()
        for shot in SHOTS:
            take_screenshot(browser, address, *shot)
        browser.close()
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
