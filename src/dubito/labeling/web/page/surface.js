// The canvas of the map: drag to pan, wheel or pinch to zoom, hover for details, lasso to select.

import { h, svg } from "./dom.js";
import { pinch, zoomOnWheel } from "./zoom.js";

const REACH_PIXELS = 14;

/** `callbacks` are hover(row or -1, x, y), pick(row), lasso(polygon), find(x, y, reach), which returns the nearest row or
 * -1, size() of a point, and isReady(). */
export function makeSurface(callbacks) {
  const canvas = h(
    "canvas",
    {
      class: "points",
      tabindex: "0",
      role: "img",
      "aria-label": "Map of the pool. Arrows move it, plus and minus zoom; the buttons beside it choose.",
    },
  );
  const path = svg("polygon", { class: "lasso", points: "" });
  const overlay = svg("svg", { class: "overlay", "aria-hidden": "true" }, path);
  const node = h("div", { class: "surface" }, canvas, overlay);
  const scatter = makeScatter(canvas);
  const view = { x: 0, y: 0, zoom: 0.94 };
  const pointers = new Map();
  let upTo = 0;
  let ringColor = [0, 0, 0];
  let pending = 0;
  let tool = "move";
  let lassoPath = null;
  let movedPixels = 0;

  function zoomFactors() {
    const { clientWidth: width, clientHeight: height } = canvas;
    const side = Math.min(width, height) || 1;
    return { zoomX: (view.zoom * side) / (width || 1), zoomY: (view.zoom * side) / (height || 1) };
  }

  function mapPosition(event) {
    const box = canvas.getBoundingClientRect();
    const { zoomX, zoomY } = zoomFactors();
    const across = (2 * (event.clientX - box.left)) / box.width - 1;
    const up = 1 - (2 * (event.clientY - box.top)) / box.height;
    return [view.x + across / zoomX, view.y + up / zoomY];
  }

  function unitsPerPixel() {
    return 2 / (zoomFactors().zoomX * (canvas.clientWidth || 1));
  }

  function draw() {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      const ratio = Math.min(2, devicePixelRatio || 1);
      const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const size = Math.max(2, Math.min(14, callbacks.size() * Math.sqrt(view.zoom))) * ratio;
      scatter.draw({ ...view, ...zoomFactors(), size }, upTo, ringColor);
      node.dataset.drawn = callbacks.isReady() ? scatter.kind : "";
    });
  }

  function zoomAt(factor, event) {
    const before = event ? mapPosition(event) : [view.x, view.y];
    view.zoom = Math.min(400, Math.max(0.02, view.zoom * factor));
    const after = event ? mapPosition(event) : [view.x, view.y];
    view.x += before[0] - after[0];
    view.y += before[1] - after[1];
    draw();
  }

  function pan(across, down) {
    view.x -= across * unitsPerPixel();
    view.y += down * unitsPerPixel();
    draw();
  }

  function extendLasso(event) {
    const box = canvas.getBoundingClientRect();
    lassoPath.push([event.clientX - box.left, event.clientY - box.top, ...mapPosition(event)]);
    path.setAttribute("points", lassoPath.map(([x, y]) => `${x},${y}`).join(" "));
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    movedPixels = 0;
    lassoPath = pointers.size === 1 && (tool === "lasso" || event.shiftKey) ? [] : null;
    if (lassoPath) extendLasso(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return callbacks.hover(callbacks.find(...mapPosition(event), REACH_PIXELS * unitsPerPixel()), event.clientX, event.clientY);
    movedPixels += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (pointers.size === 2) return pinch(pointers, event, zoomAt);
    if (lassoPath) extendLasso(event);
    else pan(event.clientX - before.clientX, event.clientY - before.clientY);
    pointers.set(event.pointerId, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    const drawn = lassoPath;
    lassoPath = null;
    path.setAttribute("points", "");
    if (movedPixels < 5) callbacks.pick(callbacks.find(...mapPosition(event), REACH_PIXELS * unitsPerPixel()));
    else if (drawn && drawn.length > 2) callbacks.lasso(drawn.map(([, , x, y]) => [x, y]));
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => callbacks.hover(-1));
  zoomOnWheel(canvas, zoomAt);
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key in steps) pan(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoomAt(1.4);
    else if (event.key === "-") zoomAt(1 / 1.4);
    else return;
    event.preventDefault();
  });
  const resizeObserver = new ResizeObserver(draw);
  resizeObserver.observe(canvas);

  return {
    node,
    zoom: zoomAt,
    set: (points) => (scatter.set(points), draw()),
    color: (rgba) => (scatter.color(rgba), draw()),
    show: (picks, color) => ((upTo = picks), (ringColor = color), draw()),
    use: (name) => ((tool = name), node.classList.toggle("is-lasso", name === "lasso")),
    fit: () => (Object.assign(view, { x: 0, y: 0, zoom: 0.94 }), draw()),
    corners: () => {
      const { zoomX, zoomY } = zoomFactors();
      const [across, up] = [1 / zoomX, 1 / zoomY];
      return [
        [view.x - across, view.y - up],
        [view.x + across, view.y - up],
        [view.x + across, view.y + up],
        [view.x - across, view.y + up],
      ];
    },
    end: () => (resizeObserver.disconnect(), scatter.drop()),
  };
}

// Points drawn with WebGL2: a buffer of positions, a buffer of colors, and the picks on top in their order.

const VERTEX = `#version 300 es
in vec2 place;
in vec4 color;
uniform vec2 middle;
uniform vec2 zoom;
uniform float size;
out vec4 shade;
void main() {
  gl_Position = vec4((place - middle) * zoom, 0.0, 1.0);
  gl_PointSize = size;
  shade = color;
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade;
uniform vec4 ring;
out vec4 seen;
void main() {
  float away = 2.0 * length(gl_PointCoord - 0.5);
  float edge = fwidth(away);
  float cover = 1.0 - smoothstep(1.0 - edge, 1.0, away);
  vec4 face = ring.a > 0.0 && away > 0.68 ? ring : shade;
  seen = vec4(face.rgb * face.a * cover, face.a * cover);
}`;

function compile(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  return gl.getProgramParameter(program, gl.LINK_STATUS) ? program : null;
}

function attribute(gl, program, name, size, kind, normalized) {
  const buffer = gl.createBuffer();
  const at = gl.getAttribLocation(program, name);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.enableVertexAttribArray(at);
  gl.vertexAttribPointer(at, size, kind, normalized, 0, 0);
  return buffer;
}

/** {kind, set(points), color(rgba), draw(view, upTo, ring), drop()}; uses a 2D canvas without WebGL2. */
function makeScatter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: true, premultipliedAlpha: true });
  const program = gl && compile(gl);
  if (!program) return makeCanvasScatter(canvas);
  gl.useProgram(program);
  const places = attribute(gl, program, "place", 2, gl.FLOAT, false);
  const colors = attribute(gl, program, "color", 4, gl.UNSIGNED_BYTE, true);
  const picks = gl.createBuffer();
  const uniform = Object.fromEntries(["middle", "zoom", "size", "ring"].map((name) => [
    name,
    gl.getUniformLocation(program, name),
  ]));
  let n = 0;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);

  return {
    kind: "webgl2",
    set(points) {
      n = points.n;
      gl.bindBuffer(gl.ARRAY_BUFFER, places);
      gl.bufferData(gl.ARRAY_BUFFER, points.xy, gl.STATIC_DRAW);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, picks);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, points.order, gl.STATIC_DRAW);
    },
    color(rgba) {
      gl.bindBuffer(gl.ARRAY_BUFFER, colors);
      gl.bufferData(gl.ARRAY_BUFFER, rgba, gl.STATIC_DRAW);
    },
    draw(view, upTo, ringColor) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (!n) return;
      gl.uniform2f(uniform.middle, view.x, view.y);
      gl.uniform2f(uniform.zoom, view.zoomX, view.zoomY);
      gl.uniform1f(uniform.size, view.size);
      gl.uniform4f(uniform.ring, 0, 0, 0, 0);
      gl.drawArrays(gl.POINTS, 0, n);
      gl.uniform1f(uniform.size, view.size * 1.3 + 3.5);
      gl.uniform4f(uniform.ring, ...ringColor.map((each) => each / 255), 1);
      if (upTo) gl.drawElements(gl.POINTS, upTo, gl.UNSIGNED_INT, 0);
    },
    drop() {
      gl.getExtension("WEBGL_lose_context")?.loseContext();
    },
  };
}

// Points drawn on a 2D canvas, for browsers without WebGL2: squares in the image data.

function drawSquare(pixels, width, height, x, y, size, red, green, blue, alpha) {
  const left = Math.max(0, Math.round(x - size / 2));
  const top = Math.max(0, Math.round(y - size / 2));
  const share = alpha / 255;
  for (let down = top; down < Math.min(height, top + size); down += 1) {
    for (let along = left; along < Math.min(width, left + size); along += 1) {
      const at = 4 * (down * width + along);
      const below = (pixels[at + 3] / 255) * (1 - share);
      const total = share + below;
      pixels[at] = (red * share + pixels[at] * below) / total;
      pixels[at + 1] = (green * share + pixels[at + 1] * below) / total;
      pixels[at + 2] = (blue * share + pixels[at + 2] * below) / total;
      pixels[at + 3] = 255 * total;
    }
  }
}

function makeCanvasScatter(canvas) {
  const context = canvas.getContext("2d");
  let points = { n: 0, xy: [], order: [] };
  let rgba = new Uint8Array();

  function drawPoint(pixels, { width, height }, view, row, size, color) {
    const x = (((points.xy[2 * row] - view.x) * view.zoomX + 1) / 2) * width;
    const y = ((1 - (points.xy[2 * row + 1] - view.y) * view.zoomY) / 2) * height;
    if (x > -size && y > -size && x < width + size && y < height + size) drawSquare(pixels, width, height, x, y, size, ...color);
  }

  return {
    kind: "2d",
    set(given) {
      points = given;
    },
    color(given) {
      rgba = given;
    },
    draw(view, upTo, ringColor) {
      const picture = context.createImageData(canvas.width, canvas.height);
      const size = Math.max(2, Math.round(view.size * 0.8));
      for (let row = 0; row < points.n; row += 1) drawPoint(
        picture.data,
        picture,
        view,
        row,
        size,
        rgba.subarray(4 * row, 4 * row + 4),
      );
      for (const row of points.order.subarray(0, upTo)) {
        drawPoint(picture.data, picture, view, row, size + 6, [...ringColor, 255]);
        drawPoint(picture.data, picture, view, row, size + 2, rgba.subarray(4 * row, 4 * row + 4));
      }
      context.putImageData(picture, 0, 0);
    },
    drop() {},
  };
}
