package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// A value that expires without a write is a change that follow prints, also if only the database has recorded that it
// does. On a slow machine a value can end before follow has seen it, so it is put again, to live longer each time; follow
// ends after the first one that it saw.
func TestFollowPrintsExpiry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	o := &db.Options{Expiry: db.ExpiryOptions{Prefixes: [][]byte{nil}}}
	store, err := db.Open(dir, o)
	require.NoError(t, err)
	defer store.Close()
	ttl := 300 * time.Millisecond
	require.NoError(t, store.PutTTL([]byte("a"), []byte("1"), ttl, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"follow", dir, "--key", "a", "-n", "2", "-i", "20ms"}, strings.NewReader(""), &stdout, &stderr)
	}()
	for waiting := true; waiting; ttl *= 2 {
		select {
		case code := <-ended:
			require.Equal(t, exitOK, code, stderr.String())
			waiting = false
		case <-time.After(3 * ttl):
			require.NoError(t, store.PutTTL([]byte("a"), []byte("1"), 2*ttl, nil))
		}
	}
	require.Equal(t, "+ a\t1\n- a\t1\n", stdout.String())
}

// With a custom comparer, serve and repair named an option.
func TestNoVerbNamesAnOptionForACustomComparer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../testdata/golden/leveldb-1.23-reverse-comparator/db")))
	for _, v := range verbsOf(t) {
		if v.noDir || v.name() == "create" || v.name() == "destroy" {
			continue
		}
		_, _, stderr := tool(t, v.onDir(dir)...)
		require.NotContains(t, stderr, "Options.", v.name())
	}
}
