// A lookup, drawn: the runs in order, what their filters said, what was read, and where the time went.

import {bytes, counted, duration} from "./format.js";
import {find, make, stacked, swatch} from "./draw.js";

const shapes = {
  absent: ["good", "M5 12.5 L19 12.5"], // the way is closed
  maybe: ["warm", "M8 8 L16 16 M16 8 L8 16"], // read for nothing
  none: ["idle", "M12 7 L12 17"],
  found: ["accent", "M7 12.5 L10.8 16 L17 8.5"],
};

function node(step) {
  const kind = step.Found ? "found" : step.Filter === "absent" ? "absent" : step.Run === "table" && step.IndexSearched ? "maybe" : "none";
  const [ink, path] = shapes[kind];
  return make("svg", {class: `node ink-${ink}`, viewBox: "0 0 24 24", "aria-hidden": "true"}, make("circle", {cx: 12, cy: 12, r: 10.5}), make("path", {d: path}));
}

// pieces says in words what happened in a run.
function pieces(step) {
  const list = [];
  const add = (text, look) => list.push(make("span", {class: `piece ${look ?? ""}`}, text));
  if (step.Opened) add(`opened: ${counted(step.OpeningReads, "read")}, ${bytes(step.OpeningBytes)}`);
  if (step.Filter === "absent") add("filter: absent, so nothing is read", "good");
  else if (step.Filter === "maybe") add("filter: maybe", step.Found ? "" : "warm");
  else add(step.Run === "table" ? "no filter" : "no filter needed");
  if (step.IndexRead) add(`index from disk: ${bytes(step.IndexBytes)}`);
  if (step.BlockFromDisk) add(`data block from disk: ${bytes(step.BytesRead - step.IndexBytes)}`, step.Found ? "" : "bad");
  if (step.BlockFromCache) add("data block from the cache", step.Found ? "" : "warm");
  if (step.Found) add("found here", "accent");
  else if (step.Filter !== "absent") add(step.Run === "table" && step.IndexSearched ? "not here: a wasted search" : "not here");
  return list;
}

const parts = [["OpenTime", "amber", "opening the table"], ["FilterTime", "good", "filter"], ["IndexTime", "violet", "index"], ["SearchTime", "accent", "index and block search"]];

// times draws the time of a run as a part of the whole lookup.
function times(step, longest) {
  const label = `${duration(step.Duration)}: ${parts.filter(p => step[p[0]]).map(p => `${p[2]} ${duration(step[p[0]])}`).join(", ")}`;
  const svg = stacked(step.FileNum > 0 ? parts.map(([field, ink]) => [step[field], ink]) : [[step.Duration, "idle"]], longest, 14, label);
  svg.classList.add("times");
  return svg;
}

export const drawExplanation = (x, moment) => find("explanation").replaceChildren(...explanation(x, moment));

// explanation returns the drawing of a lookup as elements.
export function explanation(x, moment = "") {
  const answer = x.Found ? "Found" : x.Deleted ? "Deleted" : x.Expired ? "Expired" : "Not found";
  const longest = Math.max(...x.Steps.map(s => s.Duration), 1);
  const steps = x.Steps.map((step, i) => {
    const range = x.Ranges?.[i]?.Smallest ? `keys ${x.Ranges[i].Smallest.Text} to ${x.Ranges[i].Largest.Text}` : "";
    const title = step.Run === "table" ? `Level ${step.Level}` : step.Run[0].toUpperCase() + step.Run.slice(1);
    return make("li", {class: "step"}, node(step),
      make("div", {}, make("h3", {}, title), step.FileNum > 0 && make("p", {class: "soft"}, `table ${String(step.FileNum).padStart(6, "0")}, ${bytes(step.Bytes)}`),
        step.FilterPolicy && make("p", {class: "soft"}, step.FilterPolicy), range && make("p", {class: "soft mono"}, range)),
      make("div", {}, make("div", {class: "pieces"}, ...pieces(step)), times(step, longest), make("p", {class: "soft"}, duration(step.Duration))));
  });
  const rest = x.Duration - x.Steps.reduce((sum, s) => sum + s.Duration, 0), outside = rest > x.Duration / 3 && rest > 5000
    ? ` ${duration(rest)} were spent outside of these steps: the program or the machine did something else.` : "";
  const opened = x.OpeningReads ? `; ${counted(x.OpeningReads, "read")} to open tables (${bytes(x.OpeningBytes)}), once for all lookups` : "";
  return [
    make("p", {class: "verdict"}, make("strong", {}, answer), moment && ` as of ${moment}`, ` in ${duration(x.Duration)}: ${counted(x.DiskReads, "disk read")} (${bytes(x.BytesRead)}), ` +
      `${x.ReadsSaved} saved by filters, ${x.ReadsWasted} wasted${opened}.${outside}`),
    make("ul", {class: "legend"}, ...parts.map(([, ink, name]) => make("li", {}, swatch(ink), name))),
    make("ol", {class: "steps"}, ...steps)];
}
