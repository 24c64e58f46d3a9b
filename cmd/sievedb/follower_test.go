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
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// A value that expires without a write is a change that follow prints, also if only the database has recorded that it
// does. On a slow machine a value can end before follow has seen it, so it is put again, to live longer each time;
// follow ends after the first one that it saw.
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

// The bug: a directory that a tool had repaired without its comparer was called damaged, with the advice to repair it.
func TestADirectoryInAnotherOrderIsNotToBeRepaired(t *testing.T) {
	const golden = "../../testdata/golden/leveldb-1.23-reverse-comparator/db"
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS(golden)))
	manifest := filepath.Join(dir, "MANIFEST-000002")
	f, err := files.Open(manifest)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	out, err := vfs.NewOS(0o600).Create(manifest + ".new")
	require.NoError(t, err)
	w := wal.NewWriter(out)
	records := wal.NewReader(f, size, wal.ReaderOptions{})
	for record, err := records.Next(); err == nil; record, err = records.Next() {
		require.NoError(t, w.WriteRecord(bytes.Replace(record, []byte("\x17interop.ReverseBytewise"), []byte("\x1aleveldb.BytewiseComparator"), 1)))
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	require.NoError(t, os.Rename(manifest+".new", manifest))
	for _, verb := range [][]string{{"get", dir, "k"}, {"check", dir}, {"scan", dir}} {
		code, _, stderr := tool(t, verb...)
		require.NotZero(t, code)
		require.Contains(t, stderr, "another comparer may have ordered the keys", verb)
		require.NotContains(t, stderr, "sievedb repair", verb)
		require.NotContains(t, stderr, "Options.", verb)
	}
	require.NoError(t, os.Remove(manifest))
	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	reverse := &db.Comparer{Name: "interop.ReverseBytewise", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}
	require.NoError(t, db.Repair(dir, &db.Options{Comparer: reverse}), "as the text says")
	store, err := db.Open(dir, &db.Options{Comparer: reverse})
	require.NoError(t, err)
	defer store.Close()
	report, err := store.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.NotZero(t, report.Entries)
}
