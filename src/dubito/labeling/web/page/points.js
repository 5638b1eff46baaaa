// The pool's points as arrays: out of the server's answer, near a place, inside a lasso.

function bytes(text) {
  return Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(
    atob(text),
    (each) => each.charCodeAt(0),
  );
}

function floats(text) {
  return new Float32Array(bytes(text).buffer);
}

function integers(text) {
  return new Int32Array(bytes(text).buffer);
}

function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** What `GET /api/map` tells, with x and y between -1 and 1, in one scale. */
export function decode(answer) {
  const x = floats(answer.x);
  const y = floats(answer.y);
  const [left, right] = extent(x);
  const [bottom, top] = extent(y);
  const half = Math.max(right - left, top - bottom, 1e-12) / 2;
  const xy = new Float32Array(2 * answer.n);
  for (let row = 0; row < answer.n; row += 1) {
    xy[2 * row] = (x[row] - (left + right) / 2) / half;
    xy[2 * row + 1] = (y[row] - (bottom + top) / 2) / half;
  }
  const picked = integers(answer.picked);
  return {
    n: answer.n,
    xy,
    doubt: floats(answer.doubt),
    label: integers(answer.label),
    picked,
    order: inOrder(picked),
    excluded: integers(answer.excluded),
    covered: answer.covered ?? [],
    classes: answer.classes,
  };
}

/** Rows that were picked, in the order they were. */
function inOrder(picked) {
  const rows = [];
  picked.forEach((place, row) => place >= 0 && rows.push(row));
  return Uint32Array.from(rows.sort((a, b) => picked[a] - picked[b]));
}

/** Cells of a grid with the rows in them, so that the nearest point is found without looking at all. */
export function makeIndex({ n, xy }) {
  const side = Math.max(1, Math.min(512, Math.ceil(Math.sqrt(n / 3))));
  const place = (value) => Math.min(side - 1, Math.max(0, Math.floor(((value + 1) / 2) * side)));
  const cell = (row) => place(xy[2 * row + 1]) * side + place(xy[2 * row]);
  const starts = new Uint32Array(side * side + 1);
  for (let row = 0; row < n; row += 1) starts[cell(row) + 1] += 1;
  for (let each = 0; each < side * side; each += 1) starts[each + 1] += starts[each];
  const rows = new Uint32Array(n);
  const next = starts.slice();
  for (let row = 0; row < n; row += 1) rows[next[cell(row)]++] = row;
  return { side, place, starts, rows, xy };
}

/** The row nearest to (x, y) within `reach`, or -1. */
export function nearest(index, x, y, reach) {
  const { place, side, starts, rows, xy } = index;
  let best = -1;
  let least = reach * reach;
  for (let down = place(y - reach); down <= place(y + reach); down += 1) {
    for (let along = place(x - reach); along <= place(x + reach); along += 1) {
      for (let at = starts[down * side + along]; at < starts[down * side + along + 1]; at += 1) {
        const row = rows[at];
        const away = (xy[2 * row] - x) ** 2 + (xy[2 * row + 1] - y) ** 2;
        if (away < least) [best, least] = [row, away];
      }
    }
  }
  return best;
}

/** Rows inside a polygon [[x, y], ...], by the even-odd rule. */
export function inside({ n, xy }, polygon) {
  const [left, right] = extent(polygon.map(([x]) => x));
  const [bottom, top] = extent(polygon.map(([, y]) => y));
  const found = [];
  for (let row = 0; row < n; row += 1) {
    const x = xy[2 * row];
    const y = xy[2 * row + 1];
    if (x >= left && x <= right && y >= bottom && y <= top && crossings(polygon, x, y) % 2) found.push(row);
  }
  return found;
}

function crossings(polygon, x, y) {
  let count = 0;
  for (let at = 0, before = polygon.length - 1; at < polygon.length; before = at, at += 1) {
    const [ax, ay] = polygon[at];
    const [bx, by] = polygon[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) count += 1;
  }
  return count;
}
