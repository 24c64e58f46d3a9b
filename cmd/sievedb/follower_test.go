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

// Of a directory without a database, these verbs named Options.ReadOnly; of one without CURRENT or with a
// cut MANIFEST, they gave no advice, or compared the logs alone.
func TestVerbsThatOpenInTheirOwnWayExplainDamage(t *testing.T) {
	verbs := [][]string{{"follow", "-n", "1"}, {"changes"}, {"serve", "--address", "127.0.0.1:0"}, {"diff", "--from-seq", "1"}}
	fail := func(dir, want string, verbs [][]string) {
		for _, words := range verbs {
			code, stdout, stderr := tool(t, append(words, dir)...)
			require.Equal(t, exitFailed, code, words)
			require.Empty(t, stdout, words)
			require.Contains(t, stderr, want, words)
			require.NotContains(t, stderr, "Options.", words)
		}
	}
	fail(t.TempDir(), "'sievedb create' makes one", verbs)
	dir := newDatabase(t)
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	require.Len(t, manifests, 1)
	content, err := os.ReadFile(manifests[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manifests[0], content[:20], 0o600))
	fail(dir, "'sievedb repair", verbs)
	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	fail(dir, "'sievedb repair", [][]string{verbs[0], verbs[1], verbs[3]})
}

// follow and changes ignored --expiry: they printed envelopes as parts of values, and expired values.
func TestFollowersKnowValuesThatExpire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	o := &db.Options{Expiry: db.ExpiryOptions{Prefixes: [][]byte{[]byte("s/")}}}
	store, err := db.Open(dir, o)
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.PutTTL([]byte("s/a"), []byte("lives"), time.Hour, nil))
	for _, words := range [][]string{{"follow", "-n", "1", "--key", "s/a"}, {"changes", "--prefix", "s/"}} {
		code, stdout, stderr := tool(t, append(words, dir, "--json", "--expiry", "s/")...)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, `"lives"`, words)
	}
	code, _, stderr := tool(t, "follow", "-n", "1", "--hex", "--expiry", "zz", dir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "expiry: it is not hexadecimal")
}

// A value that expires without a write is a change that follow prints. On a slow machine a value can end before follow has
// seen it, so it is put again, to live longer each time; follow ends after the first one that it saw.
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
		ended <- run(ctx, []string{"follow", dir, "--key", "a", "-n", "2", "-i", "20ms", "--expiry", ""}, strings.NewReader(""), &stdout, &stderr)
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

// With a custom comparer, diff --from-seq gave no notice of the order, and serve and repair named an option.
func TestAllVerbsExplainACustomComparer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../testdata/golden/leveldb-1.23-reverse-comparator/db")))
	code, stdout, stderr := tool(t, "diff", dir, "--from-seq", "3")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "--comparer bytes reads it")
	code, _, stderr = tool(t, "diff", dir, "--from-seq", "3", "--comparer", "bytes")
	require.Equal(t, exitDifferent, code, stderr)
	require.Contains(t, stderr, "in the order of their bytes")
	for _, v := range verbsOf(t) {
		if v.noDir || v.name() == "create" || v.name() == "destroy" {
			continue
		}
		_, _, stderr := tool(t, v.onDir(dir)...)
		require.NotContains(t, stderr, "Options.", v.name())
	}
}
