(() => {
const rgba = c => (c.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number).concat(1).slice(0, 4);
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
const faint = new Set();
for (const e of document.querySelectorAll("body *")) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()) || e.closest("title, desc, style")) continue;
  const style = getComputedStyle(e), a = light(rgba(e.closest("svg") ? style.fill : style.color)), b = light(ground(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.add(ratio.toFixed(2) + " " + e.textContent.trim().slice(0, 40));
}
const tables = [...document.querySelectorAll("table")].map(t => {
  const s = t.closest(".scroll");
  return {Label: s?.getAttribute("aria-label") ?? "", Inner: s?.clientWidth ?? 0, Width: t.scrollWidth,
    Focusable: s?.tabIndex == 0 && s?.getAttribute("role") == "region", Hint: getComputedStyle(s, "::before").content != "none"};
});
const unlinked = [...document.querySelectorAll("td")].filter(d => !d.parentElement.querySelector("th[scope=row]") ||
  [...d.closest("table").querySelectorAll("thead th")].some(h => !h.hasAttribute("scope"))).map(d => d.textContent);
const cards = [...document.querySelectorAll(".tile")].map(t => [...t.children].map(c => c.textContent).join(" | "));
const levels = [...document.querySelectorAll("h1,h2,h3")].map(h => +h.tagName[1]);
const headings = levels.slice(1).map((l, i) => [levels[i], l]).filter(([a, b]) => b > a + 1).map(String);
return {Faint: [...faint], Tables: tables, Unlinked: unlinked, Cards: cards, Headings: headings};
})()
