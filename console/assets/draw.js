// Elements and small drawings. Texts are set as text, never as HTML.

const svgNames = new Set(["svg", "g", "rect", "path", "line", "circle", "text", "title", "pattern", "defs"]);

// make returns an element: make("p", {class: "hint"}, "text", child, …).
export function make(name, attributes = {}, ...children) {
  const e = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) e.setAttribute(key, value);
  e.append(...children.filter(c => c !== undefined && c !== null && c !== false));
  return e;
}

export const find = id => document.getElementById(id);

// swatch is a colored box for legends.
export function swatch(ink, hatched) {
  return make("svg", {viewBox: "0 0 16 12", class: `ink-${ink}`, "aria-hidden": "true"},
    make("rect", {width: 16, height: 12, rx: 2, class: hatched ? "box hatched" : "swatch"}));
}

const spans = [30, 60, 120]; // seconds that a small chart can show
export const longest = spans[spans.length - 1];

// spark draws the last values of a rate, [[seconds, value], …], with what its height and its width mean.
export function spark(values, ink, text) {
  const height = 42, width = 240, now = values.length ? values[values.length - 1][0] : 0;
  const span = spans.find(s => !values.length || now - values[0][0] <= s) ?? longest;
  const top = Math.max(...values.map(v => v[1]), 1e-9);
  const svg = make("svg", {class: `spark ink-${ink}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true"});
  const at = values.map(([t, v]) => [t, (width * (1 - (now - t) / span)).toFixed(1), (height - 2 - (height - 6) * v / top).toFixed(1)]);
  for (const part of parts(at, 10)) {
    if (part.length < 2) continue;
    const line = part.map(([, x, y]) => `${x} ${y}`).join("L");
    svg.append(make("path", {class: "area", d: `M${line}L${part[part.length - 1][1]} ${height}L${part[0][1]} ${height}Z`}),
      make("path", {class: "line", d: `M${line}`, "vector-effect": "non-scaling-stroke"}));
  }
  return [svg, make("p", {class: "tile-scale"}, make("span", {}, `last ${span < 120 ? `${span} s` : `${span / 60} min`}`), make("span", {}, values.length ? `top ${text(top < 1e-6 ? 0 : top)}` : ""))];
}

// parts divides points, the first of whose numbers is a time, where nothing is known for longer than patience.
export function parts(points, patience) {
  const list = [];
  points.forEach((p, i) => {
    if (!i || p[0] - points[i - 1][0] > patience) list.push([]);
    list[list.length - 1].push(p);
  });
  return list;
}

// labels draws texts at ticks below or beside an axis, and leaves out those that would touch the one before.
// x is their position, and from and to are the ends of the axis.
export function labels(ticks, x, text, y, from, to) {
  const list = [];
  let free = -Infinity;
  for (const t of ticks) {
    const words = text(t), wide = 7.2 * words.length;
    const begin = Math.max(from, Math.min(to - wide, x(t) - wide / 2));
    if (begin < free) continue;
    free = begin + wide + 8;
    list.push(make("text", {class: "soft", x: begin + wide / 2, y, "text-anchor": "middle"}, words));
  }
  return list;
}

// stacked draws parts of a whole in one bar: [[part, ink], …]. Small parts are drawn wide enough to be seen, and the parts
// may have been measured apart from the whole, so their widths are reduced where they would exceed the bar.
export function stacked(parts, whole, height, label) {
  const svg = make("svg", {viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", height, role: "img", "aria-label": label});
  svg.append(make("rect", {width: 1000, height, class: "swatch ink-idle", opacity: .18}));
  const widths = parts.map(([part]) => part > 0 ? Math.max(1000 * part / whole, 3) : 0);
  const scale = Math.min(1, 1000 / widths.reduce((sum, w) => sum + w, 0));
  let x = 0;
  parts.forEach(([, ink], i) => {
    if (!widths[i]) return;
    svg.append(make("rect", {x, width: widths[i] * scale, height, class: `swatch ink-${ink}`}));
    x += widths[i] * scale;
  });
  return svg;
}

// table makes a table: columns are [title, isText], rows are lists of texts.
export function table(columns, rows, caption) {
  const cell = (name, i, text) => make(name, {class: columns[i][1], scope: name === "th" ? "col" : undefined}, text);
  return make("table", {}, make("caption", {class: "soft"}, caption),
    make("thead", {}, make("tr", {}, ...columns.map((c, i) => cell("th", i, c[0])))),
    make("tbody", {}, ...rows.map(r => make("tr", {}, ...r.map((text, i) => cell("td", i, text))))));
}
