(() => {
const rgb = c => (c.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number).slice(0, 3);
const light = c => c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const faint = [], texts = [...document.querySelectorAll("text")];
for (const t of texts) {
  const r = t.getBoundingClientRect();
  const under = document.elementsFromPoint(r.left + r.width / 2, r.top + r.height / 2)
    .find(e => /^(rect|path|circle)$/.test(e.tagName) && getComputedStyle(e).fill != "none");
  if (!under) { faint.push("no ground: " + t.textContent); continue; }
  const a = light(rgb(getComputedStyle(t).fill)), b = light(rgb(getComputedStyle(under).fill));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.push(ratio.toFixed(2) + " " + t.textContent);
}
const smallest = Math.min(...texts.map(t => parseFloat(getComputedStyle(t).fontSize)));
return {Faint: faint, Texts: texts.length, Smallest: smallest, Width: document.querySelector("svg").viewBox.baseVal.width};
})()
