package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressShowsOnTerminalsOnly(t *testing.T) {
	var out bytes.Buffer
	require.False(t, isTerminal(&out))
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	require.False(t, isTerminal(f))

	p := startProgress(&out, false, "x", 10, 0)
	p.done.Add(10)
	p.close()
	require.Empty(t, out.String())

	p = startProgress(&out, true, "x", 10, 0)
	p.done.Add(10)
	p.close() // also if nothing was drawn
}
