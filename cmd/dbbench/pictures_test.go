package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/browsertest"
)

// faintInPicture returns the texts of a picture with a contrast below 4.5 to 1 to the shape beneath them,
// the number of texts, the height of the smallest font, and the width of the picture.
const faintInPicture = `(() => {
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
})()`

func TestPicturesOfTheDocumentationAreLegible(t *testing.T) {
	binary := browsertest.Find(t)
	files, err := filepath.Glob("../../docs/*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	onPhones := 0
	for _, dark := range []bool{false, true} {
		p := browsertest.Open(t, binary, 1300, 1300, dark)
		for _, file := range files {
			name := fmt.Sprintf("%s, dark %v", filepath.Base(file), dark)
			picture, err := os.ReadFile(file)
			require.NoError(t, err)
			page := filepath.Join(t.TempDir(), "page.html")
			require.NoError(t, os.WriteFile(page, append([]byte("<!DOCTYPE html><meta charset=utf-8><title>A picture</title>"), picture...), 0o644))
			p.VisitFile(page)
			var found struct {
				Faint           []string
				Texts           int
				Smallest, Width float64
			}
			p.Run(faintInPicture, &found)
			require.Positive(t, found.Texts, name)
			require.Empty(t, found.Faint, name)
			if bytes.Contains(readme, []byte("docs/"+filepath.Base(file))) {
				onPhones++
				require.GreaterOrEqual(t, found.Smallest*min(1, 340/found.Width), 8.0, "%s: the texts on a phone, in pixels", name)
			}
		}
	}
	require.Equal(t, 2, onPhones, "README.md has one picture, seen light and dark")
}
