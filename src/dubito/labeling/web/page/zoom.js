// Zooming and panning a picture: wheel or pinch to zoom, drag to move, double click to zoom in or out, and buttons.

import { button, h } from "./dom.js";

const MAX_SCALE = 16;
const STEP = 1.5;
const FULL_EDGE = 4096;
const FULL_SIZE_ABOVE = 1.3;
const MOVE_PIXELS = 60;

/** Makes the picture in `box` zoomable. Returns `zoom(steps)` and `move(across, down)`, both in steps. */
export function makeZoom(box) {
  const image = box.querySelector("img");
  const pointers = new Map();
  let scale = 1;
  let x = 0;
  let y = 0;
  let isFullSize = false;

  const fitButton = button("Fit", () => set(1, 0, 0));
  const controls = h(
    "div",
    { class: "zoom", role: "group", "aria-label": "Zoom" },
    button("+", () => zoom(1), { "aria-label": "Zoom in" }),
    button("−", () => zoom(-1), { "aria-label": "Zoom out" }),
    fitButton,
  );
  box.append(controls);

  /** Sets the zoom, and the position so that some part of the picture stays in view. */
  function set(newScale, newX, newY) {
    scale = Math.min(MAX_SCALE, Math.max(1, newScale));
    const [most, mostDown] = [(box.clientWidth * (scale - 1)) / 2, (box.clientHeight * (scale - 1)) / 2];
    x = Math.min(most, Math.max(-most, newX));
    y = Math.min(mostDown, Math.max(-mostDown, newY));
    image.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    box.classList.toggle("is-zoomed", scale > 1);
    fitButton.disabled = scale === 1;
    if (scale > FULL_SIZE_ABOVE && !isFullSize) loadFullSize();
  }

  /** Loads the picture in full size, which replaces the smaller one once it is there. */
  function loadFullSize() {
    isFullSize = true;
    const large = new Image();
    large.addEventListener("load", () => (image.src = large.src));
    large.src = image.src.replace(/edge=\d+/, `edge=${FULL_EDGE}`);
  }

  /** Zooms by a factor; the point under the pointer stays where it is. */
  function zoomBy(factor, event) {
    const frame = box.getBoundingClientRect();
    const across = event ? event.clientX - frame.left - frame.width / 2 : 0;
    const down = event ? event.clientY - frame.top - frame.height / 2 : 0;
    const next = Math.min(MAX_SCALE, Math.max(1, scale * factor));
    set(next, across - ((across - x) * next) / scale, down - ((down - y) * next) / scale);
  }

  function zoom(steps) {
    zoomBy(STEP ** steps);
  }

  function move(across, down) {
    set(scale, x - across * MOVE_PIXELS, y - down * MOVE_PIXELS);
  }

  zoomOnWheel(box, zoomBy);
  box.addEventListener("dblclick", (event) => {
    if (!event.target.closest("button")) zoomBy(scale > 1 ? 1 / MAX_SCALE : 3, event);
  });
  box.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    pointers.set(event.pointerId, event);
    if (scale > 1 || pointers.size > 1) box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    if (pointers.size === 2) return pinch(pointers, event, zoomBy);
    if (scale > 1) set(scale, x + event.clientX - before.clientX, y + event.clientY - before.clientY);
    pointers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, (event) => pointers.delete(event.pointerId));
  set(1, 0, 0);
  return { zoom, move };
}

/** Calls `zoomBy(factor, event)` when the wheel is turned over an element. */
export function zoomOnWheel(node, zoomBy) {
  node.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event);
  }, { passive: false });
}

/** Calls `zoomBy(factor, center)` after one of two pointers, kept by id in a map, has moved. */
export function pinch(pointers, event, zoomBy) {
  const distance = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  const before = distance([...pointers.values()]);
  pointers.set(event.pointerId, event);
  const [a, b] = [...pointers.values()];
  const center = { clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 };
  zoomBy(distance([a, b]) / Math.max(1, before), center);
}

/** Arrow keys: up and down zoom, and with Shift all four move the picture. Returns whether it used the key. */
export function zoomKey(zoomer, key, event) {
  const steps = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (!zoomer || !(key in steps)) return false;
  if (event.shiftKey) zoomer.move(...steps[key]);
  else if (key === "ArrowUp") zoomer.zoom(1);
  else if (key === "ArrowDown") zoomer.zoom(-1);
  else return false;
  return true;
}
