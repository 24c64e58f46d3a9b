package main

import (
	_ "embed"
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
//
//go:embed testdata/readable.js
var readableScript string

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
