// The canvas under a person's hands: drag to pan, wheel or pinch to zoom, hover to see, lasso to choose.

import { h, s } from "./dom.js";
import { makeScatter } from "./scatter.js";

const CLOSE = 14;

/** `acts` has hover(row or -1, x, y), pick(row), lasso(polygon), find(x, y, reach) for the nearest row, size() of points. */
export function makeSurface(acts) {
  const canvas = h(
    "canvas",
    {
      class: "points",
      tabindex: "0",
      role: "img",
      "aria-label": "Map of the pool. Arrows move it, plus and minus zoom; the buttons beside it choose.",
    },
  );
  const path = s("polygon", { class: "lasso", points: "" });
  const overlay = s("svg", { class: "overlay", "aria-hidden": "true" }, path);
  const node = h("div", { class: "surface" }, canvas, overlay);
  const scatter = makeScatter(canvas);
  const view = { x: 0, y: 0, zoom: 0.94 };
  const fingers = new Map();
  let upTo = 0;
  let ring = [0, 0, 0];
  let pending = 0;
  let tool = "move";
  let trace = null;
  let moved = 0;

  function zooms() {
    const { clientWidth: width, clientHeight: height } = canvas;
    const side = Math.min(width, height) || 1;
    return { zoomX: (view.zoom * side) / (width || 1), zoomY: (view.zoom * side) / (height || 1) };
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    const { zoomX, zoomY } = zooms();
    const across = (2 * (event.clientX - box.left)) / box.width - 1;
    const up = 1 - (2 * (event.clientY - box.top)) / box.height;
    return [view.x + across / zoomX, view.y + up / zoomY];
  }

  function perPixel() {
    return 2 / (zooms().zoomX * (canvas.clientWidth || 1));
  }

  function draw() {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      const ratio = Math.min(2, devicePixelRatio || 1);
      const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const size = Math.max(2, Math.min(14, acts.size() * Math.sqrt(view.zoom))) * ratio;
      scatter.draw({ ...view, ...zooms(), size }, upTo, ring);
      node.dataset.drawn = acts.isReady() ? scatter.kind : "";
    });
  }

  function zoomAt(factor, event) {
    const before = event ? place(event) : [view.x, view.y];
    view.zoom = Math.min(400, Math.max(0.4, view.zoom * factor));
    const after = event ? place(event) : [view.x, view.y];
    view.x += before[0] - after[0];
    view.y += before[1] - after[1];
    draw();
  }

  function shift(across, down) {
    view.x -= across * perPixel();
    view.y += down * perPixel();
    draw();
  }

  function trail(event) {
    const box = canvas.getBoundingClientRect();
    trace.push([event.clientX - box.left, event.clientY - box.top, ...place(event)]);
    path.setAttribute("points", trace.map(([x, y]) => `${x},${y}`).join(" "));
  }

  function pinch(event) {
    const [a, b] = [...fingers.values()];
    const before = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    fingers.set(event.pointerId, event);
    const [c, d] = [...fingers.values()];
    const after = Math.hypot(c.clientX - d.clientX, c.clientY - d.clientY);
    zoomAt(after / Math.max(1, before), { clientX: (c.clientX + d.clientX) / 2, clientY: (c.clientY + d.clientY) / 2 });
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event);
    moved = 0;
    trace = fingers.size === 1 && (tool === "lasso" || event.shiftKey) ? [] : null;
    if (trace) trail(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return acts.hover(acts.find(...place(event), CLOSE * perPixel()), event.clientX, event.clientY);
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (fingers.size === 2) return pinch(event);
    if (trace) trail(event);
    else shift(event.clientX - before.clientX, event.clientY - before.clientY);
    fingers.set(event.pointerId, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    fingers.delete(event.pointerId);
    const drawn = trace;
    trace = null;
    path.setAttribute("points", "");
    if (moved < 5) acts.pick(acts.find(...place(event), CLOSE * perPixel()));
    else if (drawn && drawn.length > 2) acts.lasso(drawn.map(([, , x, y]) => [x, y]));
  });
  canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => acts.hover(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key in steps) shift(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoomAt(1.4);
    else if (event.key === "-") zoomAt(1 / 1.4);
    else return;
    event.preventDefault();
  });
  const watching = new ResizeObserver(draw);
  watching.observe(canvas);

  return {
    node,
    kind: scatter.kind,
    draw,
    zoom: zoomAt,
    set: (points) => (scatter.set(points), draw()),
    color: (rgba) => (scatter.color(rgba), draw()),
    show: (picks, color) => ((upTo = picks), (ring = color), draw()),
    use: (name) => ((tool = name), node.classList.toggle("is-lasso", name === "lasso")),
    fit: () => (Object.assign(view, { x: 0, y: 0, zoom: 0.94 }), draw()),
    corners: () => {
      const { zoomX, zoomY } = zooms();
      const [across, up] = [1 / zoomX, 1 / zoomY];
      return [
        [view.x - across, view.y - up],
        [view.x + across, view.y - up],
        [view.x + across, view.y + up],
        [view.x - across, view.y + up],
      ];
    },
    end: () => (watching.disconnect(), scatter.drop()),
  };
}
