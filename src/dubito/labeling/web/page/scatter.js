// Points on a canvas by WebGL2: one buffer of places, one of colors, and the picks again on top in their order.

import { makeFlat } from "./flat.js";

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

/** {kind, set(points), color(rgba), draw(view, upTo, ring), drop()}; on a plain canvas where there is no WebGL2. */
export function makeScatter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: true, premultipliedAlpha: true });
  const program = gl && compile(gl);
  if (!program) return makeFlat(canvas);
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
    draw(view, upTo, ring) {
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
      gl.uniform4f(uniform.ring, ...ring.map((each) => each / 255), 1);
      if (upTo) gl.drawElements(gl.POINTS, upTo, gl.UNSIGNED_INT, 0);
    },
    drop() {
      gl.getExtension("WEBGL_lose_context")?.loseContext();
    },
  };
}
