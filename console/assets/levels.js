// The levels: each table a box as wide as it is large.

import {bytes, count, counted, percent} from "./format.js";
import {find, make, swatch, table} from "./draw.js";

// The colors of verdicts; those that need attention are hatched as well.
const looks = new Map([["good", ["good"]], ["not opened yet", ["idle"]], ["never queried", ["teal"]], ["filters are off", ["idle"]],
  ["no filter", ["warm", true]], ["more false positives than predicted", ["warm", true]], ["unknown filter policy", ["warm", true]],
  ["keys collide in the 32-bit hash", ["warm", true]], ["saturated", ["bad", true]], ["damaged", ["bad", true]], ["denies stored keys", ["bad", true]]]);
export const look = verdict => looks.get(verdict) ?? ["idle"];

const gap = 2, high = 16, most = 4000; // most: boxes drawn; beyond, a box is several tables
let all = [], chosen = -1, byLevel = new Map();

const patterns = () => make("svg", {width: 0, height: 0, class: "nowhere", "aria-hidden": "true"}, make("defs", {}, ...["bad", "warm"].map(ink => make("pattern",
  {id: `hatch-${ink}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)", class: `ink-${ink}`},
  make("rect", {width: 6, height: 6, class: "swatch", opacity: .35}), make("rect", {width: 3, height: 6, class: "swatch"})))));

// groups joins neighbours if there are more tables than boxes. The worst verdict counts, and they are
// listed worst first.
function groups(tables, size) {
  const order = [...looks.keys()].reverse(), boxes = [];
  for (let i = 0; i < tables.length; i += size) {
    const of = tables.slice(i, i + size);
    const worst = of.reduce((w, t) => order.indexOf(t.verdict) < order.indexOf(w) ? t.verdict : w, of[0].verdict);
    boxes.push({tables: of, bytes: of.reduce((sum, t) => sum + t.bytes, 0), verdict: worst, level: of[0].level});
  }
  return boxes;
}

// flow places boxes in rows, and returns the height.
function flow(boxes, width, scale) {
  let x = 0, y = 0;
  for (const b of boxes) {
    b.width = Math.min(width, Math.max(4, b.bytes * scale));
    if (x + b.width > width) { x = 0; y += high + gap; }
    [b.x, b.y] = [x, y];
    x += b.width + gap;
  }
  return y + high;
}

export function drawLevels(report, metrics) {
  const area = find("tables"), width = Math.max(120, area.clientWidth - (matchMedia("(max-width: 40rem)").matches ? 0 : 184));
  const size = Math.ceil(report.tables.length / most);
  const totalBytes = report.tables.reduce((sum, t) => sum + t.bytes, 0), largest = report.tables.reduce((most, t) => Math.max(most, t.bytes), 1);
  const scale = Math.min(64 / largest, width * 12 / Math.max(totalBytes, 1));
  const kept = all[chosen]?.tables[0].fileNum, focused = area.contains(document.activeElement);
  all = [];
  byLevel = new Map();
  const rows = [], verdicts = new Map();
  metrics.Levels.forEach((l, level) => {
    const tables = report.tables.filter(t => t.level === level);
    if (!tables.length) return;
    for (const t of tables) verdicts.set(t.verdict, (verdicts.get(t.verdict) ?? 0) + 1);
    const boxes = groups(tables, size), height = flow(boxes, width, scale);
    const svg = make("svg", {class: "boxes", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
      "aria-label": `Level ${level}: ${counted(tables.length, "table")}, ${bytes(l.Bytes)}. Arrow keys choose a table.`});
    byLevel.set(level, [all.length, all.length + boxes.length]);
    for (const b of boxes) {
      const [ink, hatched] = look(b.verdict);
      b.rect = make("rect", {x: b.x, y: b.y, width: b.width, height: high, rx: 2, class: `box ink-${ink}${hatched ? " hatched" : ""}`, "data-box": all.length});
      svg.append(b.rect);
      all.push(b);
    }
    svg.addEventListener("keydown", e => walk(e, level));
    svg.addEventListener("focus", () => { if (all[chosen]?.level !== level) choose(byLevel.get(level)[0]); });
    rows.push(make("div", {class: "level"}, make("p", {class: "level-name"}, make("strong", {}, `Level ${level}`), make("br"),
      make("span", {}, ` ${counted(tables.length, "table")}, ${bytes(l.Bytes)}`)), svg));
  });
  area.replaceChildren(patterns(), ...rows.length ? rows : [make("p", {class: "empty"}, "There is no table yet: everything is in memtables and the log.")]);
  find("legend").replaceChildren(...[...verdicts].map(([verdict, n]) => make("li", {}, swatch(...look(verdict)), `${verdict} (${count(n)})`)),
    size > 1 && make("li", {}, `one box is ${size} tables`) || "");
  chosen = -1;
  if (kept === undefined || !keep(kept, focused)) find("table-detail").textContent = rows.length ? "No table is chosen." : "";
  const list = find("tables-list");
  list.ontoggle = () => fillList(report);
  fillList(report);
}

// keep chooses the box of a table again after all boxes were drawn again.
function keep(fileNum, focused) {
  const i = all.findIndex(b => b.tables.some(t => t.fileNum === fileNum));
  if (i < 0) return false;
  choose(i);
  if (focused) all[i].rect.parentNode.focus({preventScroll: true});
  return true;
}

function walk(e, level) {
  const [from, to] = byLevel.get(level);
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
  const target = e.key === "Home" ? from : e.key === "End" ? to - 1 : step && Math.min(to - 1, Math.max(from, chosen + step));
  if (target === undefined) return;
  e.preventDefault();
  choose(target);
}

export function choose(i) {
  all[chosen]?.rect.classList.remove("chosen");
  chosen = i;
  const b = all[i];
  if (!b) return;
  b.rect.classList.add("chosen");
  b.rect.parentNode.append(b.rect); // above its neighbours
  const detail = b.tables.length === 1 ? describe(b.tables[0])
    : `Level ${b.level}, tables ${b.tables[0].name} to ${b.tables[b.tables.length - 1].name}: ${bytes(b.bytes)}. The worst verdict is: ${b.verdict}.`;
  if (find("table-detail").textContent !== detail) find("table-detail").textContent = detail; // screen readers say changes
}

function describe(t) {
  const filter = t.filterBytes ? ` Its filter (${t.policy}) has ${bytes(t.filterBytes)}${t.bitsPerKey ? `, ${t.bitsPerKey.toFixed(1)} bits for each of ${count(t.keys)} keys` : ""}.` : "";
  const rates = t.filterBytes && t.predicted >= 0 ? ` Predicted false-positive rate: ${percent(t.predicted)}.` : "";
  const used = t.lookups.negatives + t.lookups.truePositives + t.lookups.falsePositives;
  const lookups = used ? ` About ${count(used)} lookups met it: ${count(t.lookups.negatives)} were excluded, ${count(t.lookups.falsePositives)} false positives.` : "";
  return `Level ${t.level}, ${t.name}: ${bytes(t.bytes)}. Verdict: ${t.verdict}${t.detail ? ` (${t.detail})` : ""}.${filter}${rates}${lookups}`;
}

// fillList fills the list of tables when it is open.
function fillList(report) {
  const list = find("tables-list");
  if (!list.open) return;
  const shown = report.tables.slice(0, 1000), box = list.querySelector(".scroll"), place = box.scrollTop;
  box.replaceChildren(table(
    [["Level"], ["Table", "text"], ["Size"], ["Filter", "text"], ["Filter size"], ["Bits a key"], ["Predicted"], ["Verdict", "text"]],
    shown.map(t => [t.level, t.name, bytes(t.bytes), t.policy || t.layout, bytes(t.filterBytes), t.bitsPerKey ? t.bitsPerKey.toFixed(1) : "–",
      t.predicted >= 0 ? percent(t.predicted) : "–", t.verdict]),
    shown.length < report.tables.length ? `The first 1,000 of ${count(report.tables.length)} tables` : `All ${counted(shown.length, "table")}`));
  box.scrollTop = place;
}

find("tables").addEventListener("pointerover", e => { if (e.target.dataset.box) choose(Number(e.target.dataset.box)); });
find("tables").addEventListener("click", e => { if (e.target.dataset.box) choose(Number(e.target.dataset.box)); });
