package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/browsertest"
)

// readable is what a page has for readers who see little, or hear it.
type readable struct {
	Faint    []string // texts with a contrast below 4.5 to 1
	Tables   []pageTable
	Unlinked []string // data cells without a heading of their column and of their row
	Cards    []string // the texts of the cards at the top
	Headings []string // levels that skip one
}

type pageTable struct {
	Label           string
	Inner, Width    float64
	Focusable, Hint bool
}

// readableScript returns a readable. The background of a text is that of the nearest element that has one.
const readableScript = `(() => {
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
})()`

// requireReadable requires contrast, labels, and tables that fit or can be scrolled. The page once had a
// table whose last column was cut at any width, and cards of which one named no filter.
func requireReadable(t *testing.T, p *browsertest.Tab, width int) {
	t.Helper()
	var r readable
	p.Run(readableScript, &r)
	require.Empty(t, r.Faint)
	require.Empty(t, r.Unlinked)
	require.Empty(t, r.Headings)
	require.Len(t, r.Cards, 4)
	for i, name := range []string{"No filter | ", "Pebble's way | ", "LevelDB's layout | ", "SieveDB's default | "} {
		require.Contains(t, r.Cards[i], name)
		require.Contains(t, r.Cards[i], " | disk reads to learn that a key is absent | ")
	}
	require.Len(t, r.Tables, 1)
	for _, table := range r.Tables {
		require.NotEmpty(t, table.Label)
		require.True(t, table.Focusable, "%s can be scrolled with the keyboard", table.Label)
		if table.Width > table.Inner+1 {
			require.Less(t, width, 1000, "%s fits on a wide screen", table.Label)
			require.True(t, table.Hint, "%s says that it can be scrolled: %v of %v", table.Label, table.Inner, table.Width)
		}
	}
}
