// Elements out of names, properties and children. A child that is a string is text, never markup.

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

/** `h("button", {class: "main", onclick: act}, "Save")` */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** A button that gives the keyboard back to the page once it was pressed by a pointer. */
export function button(label, act, properties) {
  const node = h("button", { type: "button", ...properties }, ...[label].flat());
  node.addEventListener("click", (event) => {
    if (event.detail > 0) node.blur();
    act(event);
  });
  return node;
}

export function key(name) {
  return h("kbd", null, name);
}

/** Names, texts and classes of a person's: any script, any direction. */
export function own(text, properties) {
  return h("bdi", properties, text);
}

export function byId(id) {
  return document.getElementById(id);
}
