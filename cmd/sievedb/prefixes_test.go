package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A prefix was listed again after each longer one within it, each time with a part of its keys.
func TestAPrefixOfFewerPartsIsListedOnce(t *testing.T) {
	dir := newDatabase(t)
	works(t, "delete-range", dir, "--all", "--yes")
	works(t, "put", dir, "a:b", "1", "a:c:1", "2", "a:c:2", "3", "a:d", "4", "a:e:1", "5", "a:f", "6", "b→c→d", "7", "b→e→f", "8")
	require.Equal(t, "prefix\tkeys\n(none)\t2\na:\t3\na:c:\t2\na:e:\t1\nall\t8\n", firstColumns(works(t, "size", dir, "--by-prefix", "--depth", "2"), 2))
	require.Equal(t, "prefix\tkeys\n(none)\t6\nb→\t2\nall\t8\n", firstColumns(works(t, "size", dir, "--by-prefix", "--separators", "→"), 2), "a separator is whole")
}

// firstColumns returns the first n columns of lines with tabs, with all lines but the first and last sorted.
func firstColumns(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Split(line, "\t")[:n], "\t")
	}
	slices.Sort(lines[1 : len(lines)-1])
	return strings.Join(lines, "\n") + "\n"
}
