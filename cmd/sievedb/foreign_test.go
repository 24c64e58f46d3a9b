package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/foreigntest"
	"github.com/sievedb/sievedb/vfs"
)

// 'sievedb repair' of another engine's directory printed "repaired" and succeeded; other
// commands gave the advice to run it.
func TestEveryCommandRefusesOtherEnginesDirectories(t *testing.T) {
	for _, d := range foreigntest.Directories() {
		dir := filepath.Join(t.TempDir(), "db")
		require.NoError(t, d.Files.Write(vfs.OS, dir))
		before := filesOf(t, dir)
		for _, v := range verbsOf(t) {
			if v.noDir || v.name() == "create" { // which refuses every directory with a database
				continue
			}
			code, stdout, stderr := tool(t, v.onDir(dir)...)
			require.Equal(t, exitFailed, code, "%s %s", v.name(), d.Name)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "holds a database of "+d.Engine)
			require.NotContains(t, stderr, "sievedb repair")
		}
		require.Equal(t, before, filesOf(t, dir), d.Name)
	}
}

func TestWritingVerbsHaveACompression(t *testing.T) {
	for word, want := range map[string]tables.CompressionSample{"none": {Raw: 2, Compressible: 1, Ours: true}, "snappy": {Snappy: 1, Raw: 1, Ours: true}} {
		dir := filepath.Join(t.TempDir(), "db")
		for _, args := range [][]string{{"create", dir}, {"put", dir, "k", strings.Repeat("value", 100)}, {"flush", dir}} {
			works(t, append(args, "--compression", word)...)
		}
		f, err := vfs.OS.Open(onlyFile(t, dir, "*.ldb"))
		require.NoError(t, err)
		got, err := tables.SampleCompression(f, 10)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, want, got, word)
	}
	require.Contains(t, fails(t, exitUsage, "flush", "nowhere", "--compression", "lz4"), "want snappy, zstd or none")
	verbs := map[string]bool{}
	for _, v := range verbsOf(t) {
		verbs[v.name()] = true
	}
	for name := range writers {
		require.True(t, verbs[name], name)
	}
}
