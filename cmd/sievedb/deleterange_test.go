package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

func TestDeleteRangeAsksWithTheCount(t *testing.T) {
	for answer, left := range map[string]uint64{"no": 3, "": 3, "yes": 1} {
		dir := newDatabase(t)
		store, err := db.Open(dir, nil)
		require.NoError(t, err)
		asked := ""
		s := &session{dir: dir, store: store, ask: func(question string) (string, error) {
			asked = question
			return answer + "\n", nil
		}}
		var stdout, stderr bytes.Buffer
		a := &app{ctx: t.Context(), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, session: s}
		code := a.run([]string{"delete-range", dir, "a", "q"})
		require.Contains(t, asked, "This deletes 2 keys")
		require.Equal(t, map[bool]int{true: exitOK, false: exitUsage}[left == 1], code, "%s: %s", answer, stderr.String())
		n := uint64(0)
		entries, end := store.All(nil)
		for range entries {
			n++
		}
		require.NoError(t, end())
		require.Equal(t, left, n, "answer %q", answer)
		require.NoError(t, store.Close())
	}
}

// A prefix whose keys are few is not lost among those with many keys, and only those that are printed are in memory.
func TestTheLargestPrefixesAreKept(t *testing.T) {
	top := topPrefixes{limit: 2}
	for i := range 1000 {
		p := prefixUsage{Prefix: []byte{byte(i), byte(i >> 8)}}
		p.add([]byte("k"), make([]byte, (i*7919)%1000))
		top.add(&p)
		require.LessOrEqual(t, len(top.list), 200)
	}
	top.sort()
	require.Len(t, top.list, 2)
	require.Equal(t, 1000, top.count)
	require.Equal(t, []uint64{1000, 999}, []uint64{top.list[0].bytes(), top.list[1].bytes()})
}

// Empty bounds were no bounds: a script whose variable was not set deleted everything.
func TestDeleteRangeRefusesEmptyBounds(t *testing.T) {
	dir := newDatabase(t)
	works(t, "put", dir, "--namespace", "users", "anna", "tea")
	before := works(t, "scan", dir)
	for _, args := range [][]string{
		{"", ""}, {"a", ""}, {""}, {"--prefix", ""}, {"--prefix", "", "--from", "a"}, {"--from", "a", "--to", ""}, {"--from", "", "--to", "q"},
		{"--prefix", `""`}, {"--from", `""`}, {"--namespace", "users", "--prefix", `""`}, {"--namespace", "users", "--from", `""`},
	} {
		require.NotEmpty(t, fails(t, exitUsage, append([]string{"delete-range", dir, "--yes"}, args...)...), args)
		require.Equal(t, before, works(t, "scan", dir), args)
	}
	works(t, "delete-range", dir, "--yes", "--to", `""`) // no key is below the empty one
	require.Equal(t, before, works(t, "scan", dir))
	works(t, "delete-range", dir, "--yes", "--from", "pear")
	require.NotContains(t, works(t, "scan", dir), "pear")
}

// The question was asked, and its answer then refused.
func TestDeleteRangeDoesNotAskWhereNothingCanBeWritten(t *testing.T) {
	dir := newDatabase(t)
	store, err := db.Open(dir, &db.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	s := &session{dir: dir, store: store, ask: func(string) (string, error) { panic("asked") }}
	var stderr bytes.Buffer
	a := &app{ctx: t.Context(), stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &stderr, session: s}
	require.Equal(t, exitFailed, a.run([]string{"delete-range", dir, "a", "q"}))
	require.Contains(t, stderr.String(), "shell --write")
}
