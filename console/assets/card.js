// The report card of the filters, and the curve of their memory.

import {bytes, count, counted, percent} from "./format.js";
import {find, labels, make, swatch, table} from "./draw.js";
import {look} from "./levels.js";

const left = 74, right = 20;

// logScale returns a function from values to positions, and the powers of ten between both.
function logScale(low, high, from, to) {
  const a = Math.floor(Math.log10(low)), b = Math.max(a + 1, Math.ceil(Math.log10(high)));
  const ticks = Array.from({length: b - a + 1}, (_, i) => 10 ** (a + i));
  return [v => from + (to - from) * (Math.log10(Math.max(v, 10 ** a)) - a) / (b - a), ticks];
}

// rates draws the measured and the predicted rate of each level.
function rates(levels) {
  const width = Math.max(300, Math.min(900, find("report").clientWidth)), row = 34, height = levels.length * row + 34;
  const all = levels.flatMap(l => [l.predicted, l.probes.low, l.probes.high, l.probes.rate]).filter(r => r > 0);
  const [x, ticks] = logScale(Math.max(1e-6, Math.min(...all, .01)), Math.min(1, Math.max(...all, .02)), left, width - right);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Measured and predicted false-positive rates by level; the table below has the numbers"});
  for (const t of ticks) svg.append(make("line", {class: "axis", x1: x(t), x2: x(t), y1: 4, y2: height - 28}));
  svg.append(...labels(ticks, x, percent, height - 10, left - 20, width));
  levels.forEach((l, i) => {
    const y = i * row + 22;
    svg.append(make("text", {x: 0, y: y + 4}, `Level ${l.level}`));
    if (l.predicted > 0) svg.append(make("line", {class: "predicted", x1: x(l.predicted), x2: x(l.predicted), y1: y - 10, y2: y + 10}));
    if (l.probes.absent) {
      const seen = l.probes.rate > 0;
      svg.append(make("g", {class: "ink-accent"}, make("line", {class: "range", x1: x(l.probes.low), x2: x(l.probes.high), y1: y, y2: y}),
        seen && make("circle", {class: "swatch", cx: x(l.probes.rate), cy: y, r: 5.5})));
    }
  });
  return svg;
}

let drawn = null; // the last report and its drawing, which depends on the width of the window

// redrawReport draws the rates of the last report again.
export function redrawReport() {
  if (!drawn?.svg.isConnected) return;
  const svg = rates(drawn.levels);
  drawn.svg.replaceWith(svg);
  drawn.svg = svg;
}

export function drawReport(r) {
  if (!r.tables.length) {
    find("report").replaceChildren(make("p", {class: "empty"}, "There is no table yet, so there is no filter."));
    return;
  }
  const verdicts = new Map();
  for (const t of r.tables) verdicts.set(t.verdict, [(verdicts.get(t.verdict)?.[0] ?? 0) + 1, t.advice]);
  const known = v => v >= 0 ? percent(v) : "unknown";
  drawn = {levels: r.levels, svg: rates(r.levels)};
  find("report").replaceChildren(
    make("ul", {class: "legend"}, make("li", {}, make("svg", {viewBox: "0 0 16 12", class: "ink-accent", "aria-hidden": "true"},
      make("line", {class: "range", x1: 0, x2: 16, y1: 6, y2: 6}), make("circle", {class: "swatch", cx: 8, cy: 6, r: 4})), "measured, with 95 % confidence"),
    make("li", {}, make("svg", {viewBox: "0 0 16 12", "aria-hidden": "true"}, make("line", {class: "predicted", x1: 8, x2: 8, y1: 0, y2: 12})), "predicted")),
    drawn.svg,
    make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Report card by level"}, table([["Level"], ["Tables"], ["Filters"], ["Bits a key"], ["Predicted"], ["Measured"], ["Probes"], ["Reads saved by a byte"]],
      r.levels.map(l => [l.level, count(l.tables), bytes(l.filterBytes), l.bitsPerKey ? l.bitsPerKey.toFixed(1) : "–", known(l.predicted),
        l.probes.absent ? percent(l.probes.rate) : "–", count(l.probes.absent), l.lookups.readsPerByte ? l.lookups.readsPerByte.toPrecision(2) : "–"]), "False-positive rates by level")),
    make("h3", {class: "space"}, "Verdicts"),
    make("ul", {class: "plain verdicts"}, ...[...verdicts].map(([verdict, [n, advice]]) =>
      make("li", {}, swatch(...look(verdict)), make("span", {}, make("strong", {}, verdict), ` – ${counted(n, "table")}: ${advice === "nothing" ? "nothing to do" : advice}`)))));
}

// drawCurve draws the reads of absent keys by filter memory, and where the store is.
export function drawCurve(p) {
  const area = find("curve"), width = Math.max(300, Math.min(900, area.clientWidth)), height = 300, bottom = height - 48;
  const points = p.Curve.filter(c => c.Uniform.Miss > 0 && c.Solved.Miss > 0);
  const here = {bits: 8 * p.FilterBytes / p.Keys, miss: p.Miss};
  const bits = Math.max(...points.map(c => c.BitsPerKey), here.bits), misses = points.flatMap(c => [c.Uniform.Miss, c.Solved.Miss]);
  const [y, ticks] = logScale(1000 * Math.min(...misses), 1000 * Math.max(...misses), bottom, 12);
  const x = b => left + (width - left - right) * b / bits;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Now: ${here.bits.toFixed(1)} bits a key, ${(1000 * here.miss).toPrecision(3)} blocks for 1,000 absent keys; with the same memory the budget plans ${(1000 * p.At.Solved.Miss).toPrecision(3)}`});
  for (const t of ticks) {
    svg.append(make("line", {class: "axis", x1: left, x2: width - right, y1: y(t), y2: y(t)}), make("text", {class: "soft", x: left - 8, y: y(t) + 4, "text-anchor": "end"}, count(t) === "0" ? String(t) : count(t)));
  }
  svg.append(...labels(Array.from({length: Math.floor(bits / 4) + 1}, (_, i) => 4 * i), x, String, bottom + 18, left - 8, width));
  svg.append(make("text", {class: "soft", x: (left + width) / 2, y: height - 8, "text-anchor": "middle"}, "bits of filter for each key"));
  const line = (get, look) => svg.append(make("path", {class: look, d: "M" + points.map(c => `${x(c.BitsPerKey).toFixed(1)} ${y(1000 * get(c)).toFixed(1)}`).join("L")}));
  line(c => c.Uniform.Miss, "curve-line ink-idle");
  line(c => c.Solved.Miss, "curve-line ink-good");
  if (p.MissKnown && p.Miss > 0) {
    const at = [x(here.bits), y(1000 * here.miss)], flip = at[0] > width - 130;
    svg.append(make("circle", {class: "here ink-bad", cx: at[0], cy: at[1], r: 6.5}), make("text", {x: at[0] + (flip ? -12 : 12), y: at[1] - 8, "text-anchor": flip ? "end" : "start", "font-weight": 600}, "this store"));
  }
  const now = p.MissKnown ? `This store has ${here.bits.toFixed(1)} bits for each of ${p.Known < p.Tables ? "about " : ""}${count(p.Keys)} keys (${bytes(p.FilterBytes)}); its filters predict ` +
    `${(1000 * here.miss).toPrecision(3)} wasted blocks for 1,000 absent keys. With the same memory, a settled database would waste ${(1000 * p.At.Solved.Miss).toPrecision(3)} with a budget and ` +
    `${(1000 * p.At.Uniform.Miss).toPrecision(3)} with the same bits on all levels.` : "The false-positive rate of some tables is unknown, so this store is not on the chart.";
  const extrapolated = p.Known < p.Tables ? ` ${count(p.Known)} of ${counted(p.Tables, "table")} are open; the others are assumed to be like them.` : "";
  area.replaceChildren(make("ul", {class: "legend"}, make("li", {}, swatch("good"), "divided by the budget"), make("li", {}, swatch("idle"), "the same bits on every level"), make("li", {}, swatch("bad"), "this store")),
    svg, make("p", {class: "hint"}, now + extrapolated));
}
