// The same points on a plain canvas, for browsers without WebGL2: squares written into the picture's bytes.

function square(pixels, width, height, x, y, size, red, green, blue, alpha) {
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

export function makeFlat(canvas) {
  const context = canvas.getContext("2d");
  let points = { n: 0, xy: [], order: [] };
  let rgba = new Uint8Array();

  function put(pixels, { width, height }, view, row, size, color) {
    const x = (((points.xy[2 * row] - view.x) * view.zoomX + 1) / 2) * width;
    const y = ((1 - (points.xy[2 * row + 1] - view.y) * view.zoomY) / 2) * height;
    if (x > -size && y > -size && x < width + size && y < height + size) square(pixels, width, height, x, y, size, ...color);
  }

  return {
    kind: "2d",
    set(given) {
      points = given;
    },
    color(given) {
      rgba = given;
    },
    draw(view, upTo, ring) {
      const picture = context.createImageData(canvas.width, canvas.height);
      const size = Math.max(2, Math.round(view.size * 0.8));
      for (let row = 0; row < points.n; row += 1) put(
        picture.data,
        picture,
        view,
        row,
        size,
        rgba.subarray(4 * row, 4 * row + 4),
      );
      for (const row of points.order.subarray(0, upTo)) {
        put(picture.data, picture, view, row, size + 6, [...ring, 255]);
        put(picture.data, picture, view, row, size + 2, rgba.subarray(4 * row, 4 * row + 4));
      }
      context.putImageData(picture, 0, 0);
    },
    drop() {},
  };
}
