package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The second value of standard input was empty.
func TestStandardInputIsTheValueOfOneKey(t *testing.T) {
	dir := newDatabase(t)
	before := works(t, "scan", dir)
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, run(t.Context(), []string{"put", dir, "a", "-", "b", "-"}, strings.NewReader("value"), &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "nothing was written")
	require.Equal(t, before, works(t, "scan", dir))
}
