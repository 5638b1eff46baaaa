// The item under the pointer, or the one that was pressed, in a small card beside the map.

import { ask } from "./api.js";
import { button, h, own } from "./dom.js";
import { brief } from "./item.js";
import { labelThis } from "./label.js";
import { wrong } from "./notices.js";

const PAUSE = 60;

export function hoverCard() {
  const seen = new Map();
  const node = h("aside", { class: "card", hidden: true, "aria-label": "Item on the map" });
  let row = -1;
  let pinned = false;
  let timer = 0;

  async function itemOf(wanted) {
    if (!seen.has(wanted)) seen.set(wanted, await ask(`/api/items/${wanted}`));
    return seen.get(wanted);
  }

  function standing(item) {
    if (item.label !== null && item.label !== undefined) return ["Labeled ", own(item.label, { class: "said" })];
    return [item.skipped ? "Skipped" : "Not labeled"];
  }

  async function show(wanted, x, y) {
    const item = await itemOf(wanted);
    if (wanted !== row) return;
    node.replaceChildren(
      brief(item, 256),
      own(item.id, { class: "id" }),
      h("p", null, standing(item)),
      button("Label this one", () => labelThis(wanted).catch(wrong)),
    );
    node.hidden = false;
    if (x !== undefined) move(x, y);
  }

  function move(x, y) {
    const left = Math.min(x + 18, innerWidth - node.offsetWidth - 12);
    const top = Math.min(y + 18, innerHeight - node.offsetHeight - 12);
    node.style.setProperty("--left", `${Math.max(8, left)}px`);
    node.style.setProperty("--top", `${Math.max(8, top)}px`);
  }

  function hide() {
    row = -1;
    node.hidden = true;
  }

  return {
    node,
    hover(found, x, y) {
      if (pinned) return;
      clearTimeout(timer);
      if (found < 0) return hide();
      if (found === row) return move(x, y);
      row = found;
      timer = setTimeout(() => show(found, x, y).catch(hide), PAUSE);
    },
    pin(found) {
      clearTimeout(timer);
      pinned = found >= 0;
      node.classList.toggle("is-pinned", pinned);
      if (!pinned) return hide();
      row = found;
      show(found).catch(wrong);
    },
    end: () => clearTimeout(timer),
  };
}
