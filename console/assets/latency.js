// Latencies: since the opening, in the last minute, and their 99 % over time.

import {count, duration} from "./format.js";
import {find, labels, make, parts, swatch} from "./draw.js";

const names = [["Get", "Get"], ["Put", "Put without sync"], ["SyncedPut", "Put with sync"], ["Commit", "Commit of a group"], ["SyncedCommit", "Commit with sync"], ["Fsync", "Fsync of the log"]];
const step = 5, minute = 60, kept = 600; // seconds: between two points, of the last minute, that the chart shows
const past = []; // [seconds, latencies], the oldest first, each at least a step after the one before

// since returns the durations that now has and then has not.
function since(then, now) {
  const before = new Map((then?.Buckets ?? []).map(b => [b.From, b.Count]));
  const Buckets = (now.Buckets ?? []).map(b => ({...b, Count: b.Count - (before.get(b.From) ?? 0)})).filter(b => b.Count > 0);
  return {Buckets, Count: Buckets.reduce((sum, b) => sum + b.Count, 0)};
}

// quantile is the end of the bucket in which a part q of the durations ends.
export function quantile(h, q) {
  let rank = Math.max(1, Math.ceil(q * h.Count));
  for (const b of h.Buckets) {
    if (b.Count >= rank) return b.To;
    rank -= b.Count;
  }
  return 0;
}

const words = h => `median ${duration(quantile(h, .5))}, 99 % within ${duration(quantile(h, .99))}, longest ${duration(quantile(h, 1))}; ${count(h.Count)} measured`;

// shortDuration is that of a power of ten.
const shortDuration = ns => duration(ns).replace(/\.0+ /, " ");

const width = 320;

// histogram draws all durations, and over them those of the last minute, each in its own scale.
function histogram(all, recent, title, span) {
  const height = 120, base = 92, steps = 2; // bars for each doubling
  const low = Math.floor(Math.log2(Math.max(1, all.Buckets[0].From))), high = Math.ceil(Math.log2(all.Buckets[all.Buckets.length - 1].To));
  const slots = Math.max(1, high - low) * steps, each = width / slots, main = recent.Count ? recent : all;
  const x = ns => width * (Math.log2(Math.max(1, ns)) - low) / (slots / steps);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: since the opening ${words(all)}; ${span} ${recent.Count ? words(recent) : "none"}`});
  const bars = (h, ink, inset) => {
    const n = new Array(slots).fill(0);
    for (const b of h.Buckets) n[Math.max(0, Math.min(slots - 1, Math.floor((Math.log2(Math.max(1, b.From)) - low) * steps)))] += b.Count;
    const top = Math.max(...n);
    n.forEach((v, i) => { if (v) svg.append(make("rect", {class: `bar ink-${ink}`, x: i * each + inset, width: Math.max(.5, each - 2 * inset), y: base - 74 * v / top - 1, height: 74 * v / top + 1})); });
  };
  bars(all, "quiet", .5);
  if (recent.Count) bars(recent, "accent", each / 4);
  svg.append(make("line", {class: "axis", x1: 0, x2: width, y1: base, y2: base}));
  const ticks = [];
  for (let ns = 10 ** Math.ceil(low * Math.log10(2) - 1e-9); x(ns) <= width; ns *= 10) ticks.push(ns);
  for (const ns of ticks) svg.append(make("line", {class: "axis", x1: x(ns), x2: x(ns), y1: base, y2: base + 4}));
  svg.append(...labels(ticks, x, shortDuration, base + 17, 0, width));
  for (const [q, name, y] of [[.5, "50 %", 24], [.99, "99 %", 11]]) {
    const at = x(quantile(main, q)), right = at > width - 40;
    svg.append(make("line", {class: "mark", x1: at, x2: at, y1: y - 9, y2: base}),
      make("text", {x: at + (right ? -4 : 4), y, "text-anchor": right ? "end" : "start"}, name));
  }
  return svg;
}

// course draws the 99 % of each interval over time: [[seconds, nanoseconds], …].
function course(points, now, title) {
  const height = 92, left = 60, top = 8, base = 66;
  const values = points.map(p => p[1]), max = Math.max(...values), min = Math.min(...values);
  const high = Math.log10(max) + .05, low = Math.min(Math.log10(min), high - .5) - .05;
  const begin = Math.min(points[0][0], now - minute), span = now - begin;
  const x = t => left + (width - left - 4) * (t - begin) / span, y = ns => base - (base - top) * (Math.log10(ns) - low) / (high - low);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, class: "ink-accent", role: "img",
    "aria-label": `${title}: 99 % of the calls of ${step} seconds were within ${duration(min)} to ${duration(max)}, now ${duration(values[values.length - 1])}`});
  svg.append(make("line", {class: "axis", x1: left, x2: width, y1: base, y2: base}));
  for (const [ns, at] of max > min * 1.3 ? [[max, y(max) + 4], [min, Math.max(y(min), y(max) + 16) + 4]] : [[max, y(max) + 4]]) {
    svg.append(make("line", {class: "axis", x1: left, x2: width, y1: y(ns), y2: y(ns)}), make("text", {class: "soft", x: left - 6, y: Math.min(at, base + 4), "text-anchor": "end"}, duration(ns)));
  }
  for (const part of parts(points, 4 * step)) {
    if (part.length > 1) svg.append(make("path", {class: "curve-line", d: "M" + part.map(([t, ns]) => `${x(t).toFixed(1)} ${y(ns).toFixed(1)}`).join("L")}));
    else svg.append(make("circle", {class: "swatch", cx: x(part[0][0]), cy: y(part[0][1]), r: 2.5}));
  }
  svg.append(...labels([begin, now], x, t => t === now ? "now" : now - t < 100 ? `${Math.round(now - t)} s ago` : `${Math.round((now - t) / 60)} min ago`, base + 18, left, width));
  return svg;
}

// drawLatency draws an answer of the store, and remembers it.
export function drawLatency(s) {
  const now = s.Seconds;
  if (!past.length || now - past[past.length - 1][0] >= step) past.push([now, s.Metrics.Latency]);
  while (past.length && past[0][0] < now - kept) past.shift();
  let from = past.findLastIndex(([t]) => t <= now - minute);
  if (from < 0) from = 0;
  const span = now - past[from][0] >= minute - 1 ? "last minute" : `last ${Math.round(now - past[from][0])} s`;
  const drawn = names.filter(([field]) => s.Metrics.Latency[field].Count).map(([field, title]) => {
    const all = s.Metrics.Latency[field], recent = since(past[from][1][field], all), points = [];
    for (let i = 1; i < past.length; i++) {
      const some = since(past[i - 1][1][field], past[i][1][field]);
      if (some.Count) points.push([past[i][0], quantile(some, .99)]);
    }
    return make("figure", {}, make("h3", {}, title), histogram(all, recent, title, span),
      make("p", {class: "hint"}, make("strong", {}, `${span[0].toUpperCase()}${span.slice(1)}: `), recent.Count ? words(recent) : "nothing was measured", make("br"),
        make("strong", {}, "Since the opening: "), words(all)),
      points.length > 0 && make("p", {class: "small"}, `99 % of each ${step} seconds`), points.length > 0 && course(points, now, title));
  });
  find("latency-hint").textContent = `Durations on a logarithmic scale. Of calls without a sync, one in ${s.Sample} is measured.`;
  find("latency-legend").replaceChildren(...drawn.length ? [make("li", {}, swatch("accent"), span), make("li", {}, swatch("quiet"), "since the opening")] : []);
  find("histograms").replaceChildren(...drawn.length ? drawn : [make("p", {class: "empty"}, "Nothing has been measured yet.")]);
}
