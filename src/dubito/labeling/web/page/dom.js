// Creating elements. Children that are strings become text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element: `h("button", {class: "main", onclick: act}, "Save")`. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Like `h`, for SVG. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** A button that gives up the keyboard focus after a click, so that Space and Enter keep their meaning. */
export function button(label, act, properties) {
  const node = h("button", { type: "button", ...properties }, ...[label].flat());
  node.addEventListener("click", (event) => {
    if (event.detail > 0) node.blur();
    act(event);
  });
  return node;
}

export function kbd(name) {
  return h("kbd", null, name);
}

// Control characters, including those that change the text direction, but not joiners, which scripts and emoji need.
const INVISIBLE = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A name with invisible characters made visible, such as "⟨U+202E⟩". */
export function visibleText(name) {
  return String(name).replace(INVISIBLE, (each) => `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The same, isolated from the text direction of the sentence around it. */
export function isolated(name) {
  return `\u2068${visibleText(name)}\u2069`;
}

/** An element for text that users entered (names, ids, classes), in any script and direction. */
export function userText(name, properties) {
  return h("bdi", properties, visibleText(name));
}

export function byId(id) {
  return document.getElementById(id);
}
