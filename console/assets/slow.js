// The slowest lookups, explained as they happened.

import {counted, duration} from "./format.js";
import {find, make} from "./draw.js";
import {explanation} from "./explain.js";

const most = 10;
let drawn = "";
const open = new Set(); // times of the lookups whose explanation is shown

export function drawSlow(list, now) {
  const text = JSON.stringify([list.map(s => s.At), Math.floor(now / 10)]);
  if (text === drawn) return;
  drawn = text;
  const shown = list.slice(0, most), box = find("slowest"), focused = box.contains(document.activeElement) ? document.activeElement.dataset.at : undefined;
  for (const at of [...open]) if (!shown.some(s => s.At === at)) open.delete(at);
  box.replaceChildren(...shown.length ? shown.map(s => one(s, now)) : [make("p", {class: "empty"}, "None was recorded yet. Lookups are recorded while the page is visible.")]);
  if (focused !== undefined) box.querySelector(`summary[data-at="${focused}"]`)?.focus({preventScroll: true});
}

// one is a lookup, which draws its explanation when it is opened.
function one(s, now) {
  const x = s.Explanation, key = s.Key ? make("span", {class: "mono"}, s.Key.Text || "the empty key") : `a key of ${counted(s.KeyBytes, "byte")}`;
  const details = make("details", {class: "slow"}, make("summary", {"data-at": s.At}, make("strong", {}, duration(x.Duration)), " for ", key, ": ",
    `${x.Found ? "found" : "absent"}, ${counted(x.DiskReads, "disk read")}, ${x.ReadsWasted} wasted`, x.OpeningReads ? `, ${counted(x.OpeningReads, "read")} to open tables` : "",
    make("span", {class: "soft"}, `, ${duration(Math.max(0, now - s.At) * 1e9)} ago`)));
  const fill = () => { if (details.open && details.children.length === 1) details.append(...explanation(x)); };
  details.open = open.has(s.At);
  fill();
  details.addEventListener("toggle", () => {
    if (details.open) open.add(s.At);
    else open.delete(s.At);
    fill();
  });
  return details;
}
