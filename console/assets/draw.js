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

// spark draws the last values of a rate.
export function spark(values, ink, slots) {
  const top = Math.max(...values, 1e-9), height = 42, width = 240;
  const at = values.map((v, i) => [width * (slots - values.length + i) / (slots - 1), height - 2 - (height - 6) * v / top]);
  const svg = make("svg", {class: `spark ink-${ink}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true"});
  if (at.length > 1) {
    const line = at.map(p => p.map(n => n.toFixed(1)).join(" ")).join("L");
    svg.append(make("path", {class: "area", d: `M${line}L${width} ${height}L${at[0][0].toFixed(1)} ${height}Z`}),
      make("path", {class: "line", d: `M${line}`, "vector-effect": "non-scaling-stroke"}));
  }
  return svg;
}

// stacked draws parts of a whole in one bar: [[part, ink], …].
export function stacked(parts, whole, height, label) {
  const svg = make("svg", {viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", height, role: "img", "aria-label": label});
  svg.append(make("rect", {width: 1000, height, class: "swatch ink-idle", opacity: .18}));
  let x = 0;
  for (const [part, ink] of parts) {
    if (!(part > 0)) continue;
    const width = Math.max(1000 * part / whole, 3);
    svg.append(make("rect", {x, width, height, class: `swatch ink-${ink}`}));
    x += width;
  }
  return svg;
}

// table makes a table: columns are [title, isText], rows are lists of texts.
export function table(columns, rows, caption) {
  const cell = (name, i, text) => make(name, {class: columns[i][1], scope: name === "th" ? "col" : undefined}, text);
  return make("table", {}, make("caption", {class: "soft"}, caption),
    make("thead", {}, make("tr", {}, ...columns.map((c, i) => cell("th", i, c[0])))),
    make("tbody", {}, ...rows.map(r => make("tr", {}, ...r.map((text, i) => cell("td", i, text))))));
}
