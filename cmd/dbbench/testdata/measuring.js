(() => {
const box = e => e.getBoundingClientRect();
const plots = [...document.querySelectorAll("svg.plot")].map(svg => {
  const r = box(svg), texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, box(t)]);
  const outside = texts.filter(([, b]) => b.left < r.left - 1 || b.right > r.right + 1 || b.top < r.top - 1 || b.bottom > r.bottom + 1);
  const overlapping = [];
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 1 && high > 0.45 * Math.min(p.height, q.height)) overlapping.push(a + " / " + b);
  }));
  const says = name => (svg.querySelector(name)?.textContent ?? "").trim() != "";
  return {ID: svg.id, X: r.left + scrollX, Y: r.top + scrollY, Width: r.width, Height: r.height,
    Marks: [...svg.querySelectorAll(".mark")].filter(m => box(m).width > 0).length, Texts: texts.length,
    Outside: outside.map(t => t[0]), Overlapping: overlapping, Named: says("title") && says("desc")};
});
const cut = [...document.querySelectorAll("h1,h2,h3,p,dt,dd,figcaption,strong,span,.card,figure")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != "inline" || box(e).right > innerWidth + 1)
  .filter(e => !e.closest(".scroll")).map(e => e.tagName + " " + e.textContent.slice(0, 60));
return {Width: document.documentElement.scrollWidth, Height: document.documentElement.scrollHeight, Inner: innerWidth, Plots: plots, Cut: cut};
})()
