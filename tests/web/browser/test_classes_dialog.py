"""The dialog that changes classes, while two people label."""

from collections.abc import Callable
from pathlib import Path

from labeling.projects import write_rows
from web.browser.person import Person
from web.browser.server import Server


def classes_of(person: Person) -> list[str]:
    return [str(each) for each in person.standing()["classes"]]


def test_classes_are_renamed_merged_removed_restored_moved_and_get_keys(
    serve: Callable[..., Server], come: Callable[..., Person], tmp_path: Path
) -> None:
    server = serve(str(write_rows(tmp_path)), "--classes", "left,right,up")
    ann, bob = come(server, "ann"), come(server, "bob")
    ann.press("1")
    ann.press("2")
    bob.shown()
    page = ann.page
    page.get_by_role("button", name="Edit classes").click()
    page.get_by_label("Change ⁨left⁩").click()
    page.get_by_label("Name", exact=True).fill("port")
    page.get_by_role("button", name="Rename").click()
    page.locator(".quiet").get_by_text("renamed").wait_for()
    # The other page shows the new name, and its key is the same.
    bob.page.locator(".class", has_text="port").wait_for()
    bob.press("1")
    assert classes_of(bob) == ["port", "right", "up"]
    assert {each["class"]: each["labels"] for each in bob.ask("/api/classes")["classes"]} == {
        "port": 2,
        "right": 1,
        "up": 0,
    }
    page.get_by_label("Change ⁨up⁩").click()
    page.get_by_label("Name", exact=True).fill("right")
    page.get_by_role("button", name="Rename").click()
    refused = page.locator(".notice", has_text="merge the two")
    refused.wait_for()
    seen = refused.evaluate(
        "node => { const { x, y, width, height } = node.getBoundingClientRect();"
        " document.getElementById('notices').style.pointerEvents = 'auto';"
        " const top = document.elementFromPoint(x + width / 2, y + height / 2);"
        " document.getElementById('notices').style.pointerEvents = ''; return node === top }"
    )
    assert seen, "a notice is hidden by the dialog"
    page.get_by_role("button", name="Remove it").click()
    page.locator(".quiet").get_by_text("removed ⁨up⁩").wait_for()
    page.locator(".last-change").get_by_role("button", name="Undo").click()
    page.get_by_label("Change ⁨up⁩").wait_for()
    page.get_by_label("Key of ⁨up⁩").fill("u")
    page.get_by_label("Key of ⁨up⁩").press("Enter")
    ann.wait_until(lambda: ann.standing()["keys"] == {"port": "1", "right": "2", "up": "u"})
    page.get_by_label("Move ⁨up⁩ up").click()
    ann.wait_until(lambda: classes_of(ann) == ["port", "up", "right"])
    page.get_by_label("Change ⁨right⁩").click()
    page.get_by_label("Merge into").select_option("port")
    page.get_by_role("button", name="Merge").click()
    ann.wait_until(lambda: classes_of(ann) == ["port", "up"])
    assert [each["labels"] for each in ann.ask("/api/classes")["classes"]] == [3, 0]
    bob.page.locator(".class", has_text="right").wait_for(state="detached")
    bob.press("u")
    # Chromium itself reports the name that was refused.
    assert [each for each in ann.complaints if "409" not in each] == bob.complaints == []
    page.keyboard.press("Escape")
    page.keyboard.press("Backspace")
    page.locator("body > #notices").wait_for(state="attached")
