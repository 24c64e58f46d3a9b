(() => {
const box = e => e.getBoundingClientRect(), seen = e => box(e).width > 0 && box(e).height > 0;
const say = e => e.tagName + "." + (e.getAttribute("class") ?? "") + " " + e.textContent.trim().slice(0, 50);
const all = q => [...document.querySelectorAll(q)].filter(seen), faint = [];
const parse = c => (c.match(/[\d.]+/g) ?? []).map(Number);
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > .99) return c; } return [255, 255, 255]; };
for (const e of all("body *")) {
  const text = [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()), dot = e.classList.contains("dot");
  if (e.closest("svg, .skip") || !text && !dot) continue;
  const style = getComputedStyle(e), a = light(parse(dot ? style.backgroundColor : style.color)), b = light(back(dot ? e.parentElement : e));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < (dot ? 3 : 4.5)) faint.push(ratio.toFixed(2) + " " + say(e));
}
return {Width: document.documentElement.scrollWidth, Inner: innerWidth, Faint: faint,
  Outside: all("body *").filter(e => !e.closest(".skip, svg *") && (box(e).right > innerWidth + 1 || box(e).left < -1)).map(say),
  Unnamed: all("button, a, [role=img]").filter(e => !(e.getAttribute("aria-label") ?? e.textContent).trim()).map(say),
  Headings: all("h1, h2, h3").map(h => Number(h.tagName[1])), Cards: all(".groups > li").length, Nodes: all(".nodes > li").length,
  Bold: document.querySelectorAll("b").length, Strip: document.querySelector("#strip svg").getAttribute("aria-label"), Alerts: document.querySelector("#alerts").textContent};
})()
