package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/browsertest"
)

// faintInPicture returns the texts of a picture with a contrast below 4.5 to 1 to the shape beneath them,
// the number of texts, the height of the smallest font, and the width of the picture.
//
//go:embed testdata/faint.js
var faintInPicture string

func TestPicturesOfTheDocumentationAreLegible(t *testing.T) {
	binary := browsertest.Find(t)
	files, err := filepath.Glob("../../docs/*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	onPhones := 0
	for _, dark := range []bool{false, true} {
		p := browsertest.Open(t, binary, 1300, 2000, dark) // taller than each picture
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
