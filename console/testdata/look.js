(() => {
const box = e => e.getBoundingClientRect(), seen = e => box(e).width > 0 && box(e).height > 0 && getComputedStyle(e).visibility != "hidden";
const say = e => e.tagName + "#" + e.id + "." + (e.getAttribute("class") ?? "") + " " + e.textContent.trim().slice(0, 50);
const all = q => [...document.querySelectorAll(q)].filter(seen);
const sections = all("main > section"), outside = [], overlapping = [], unnamed = [], faint = [], tiny = [];
for (const e of all("body *")) {
  if (e.closest("nav, .scroll, .skip, table") || e.closest("svg") && e.tagName != "svg" && e.tagName != "text") continue;
  if (box(e).right > innerWidth + 1 || box(e).left < -1) outside.push(say(e));
}
for (const svg of all("svg")) {
  const texts = [...svg.querySelectorAll("text")], b = box(svg);
  texts.forEach((t, i) => {
    const p = box(t);
    if (p.height < 10) tiny.push(t.textContent);
    if (p.left < b.left - 2 || p.right > b.right + 2 || p.top < b.top - 2 || p.bottom > b.bottom + 2) outside.push(t.textContent);
    for (const o of texts.slice(i + 1)) {
      const q = box(o), wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (wide > 1 && high > .45 * Math.min(p.height, q.height)) overlapping.push(t.textContent + " / " + o.textContent);
    }
  });
}
sections.forEach((s, i) => { if (i && box(s).top < box(sections[i - 1]).bottom) overlapping.push(s.id); });
for (const e of all("button, input, select, a, [role=img], [role=region], [tabindex='0'], img")) {
  const label = e.labels?.length ? e.labels[0].textContent : e.getAttribute("aria-label") ?? e.getAttribute("alt") ?? e.textContent;
  if (!label.trim() && e.getAttribute("alt") !== "") unnamed.push(say(e));
}
const parse = c => (c.match(/[\d.]+/g) ?? []).map(Number);
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > .99) return c; } return [255, 255, 255]; };
for (const e of all("body *")) {
  const svg = e.tagName == "text";
  if (e.closest("svg") && !svg || ![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()) || e.closest("option, .skip")) continue;
  const style = getComputedStyle(e), a = light(parse(svg ? style.fill : style.color)), b = light(back(e));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size = parseFloat(style.fontSize);
  if (ratio < (size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5)) faint.push(ratio.toFixed(2) + " " + say(e));
}
return {Width: document.documentElement.scrollWidth, Inner: innerWidth, Height: document.documentElement.scrollHeight, Sections: sections.map(s => s.id), Outside: outside,
  Overlapping: overlapping, Unnamed: unnamed, Faint: faint, Tiny: tiny, Headings: all("h1, h2, h3, h4").map(h => Number(h.tagName[1])),
  Boxes: all(".boxes rect").length, Tiles: all(".tiles li").length, Charts: all("figure svg").length};
})()
