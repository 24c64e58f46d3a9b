package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/race"
)

// matrixArgs are what follows the directory for verbs that need it.
func matrixArgs(t *testing.T, v *verb) []string {
	temp := t.TempDir()
	switch v.name() {
	case "get", "has", "explain", "delete":
		return []string{"key00002"}
	case "put":
		return []string{"key00002", "value"}
	case "archive", "checkpoint", "backup":
		return []string{filepath.Join(temp, "dest")}
	case "export":
		return []string{filepath.Join(temp, "file")}
	case "diff":
		return []string{"--from-seq", "700"}
	case "follow":
		return []string{"--count", "1"}
	case "serve":
		return []string{"--address", "127.0.0.1:0"}
	case "delete-range":
		return []string{"--prefix", "key0000", "--yes"}
	case "destroy":
		return []string{"--yes"}
	case "dump":
		return []string{"--all", "--entries"}
	case "ingest":
		return []string{filepath.Join(temp, "none.ldb")}
	case "filters":
		return []string{"--probes", "50"}
	}
	return nil
}

// onlyRead are the verbs that must not change a byte of the directory.
const onlyRead = " get has scan count namespaces stats size tables properties explain filters check dump diff follow changes serve checkpoint backup export "

// No verb panics, hangs, or fails without a message on any directory: of SieveDB, LevelDB and goleveldb,
// sound, damaged, without CURRENT, and open elsewhere. Verbs that read change nothing.
func TestEveryVerbOnEveryDirectory(t *testing.T) {
	race.SkipInShort(t) // the test of the bare command runs every verb at the same time, too
	programs, states := []string{"goleveldb-filter", "leveldb-1.23-uncompressed", "sievedb-cache-line-filter"}, []string{"damaged", "open", "sound", "without CURRENT"}
	if testing.Short() {
		programs, states = programs[:1], states[:2]
	}
	for _, program := range programs {
		for _, state := range states {
			for _, v := range verbsOf(t) {
				if v.noDir && v.name() != "dump" && v.name() != "properties" {
					continue
				}
				t.Run(program+"/"+state+"/"+v.name(), func(t *testing.T) {
					t.Parallel()
					tryVerb(t, program, state, v)
				})
			}
		}
	}
}

func tryVerb(t *testing.T, program, state string, v *verb) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("../../testdata/golden", program, "db"))))
	reads := strings.Contains(onlyRead, " "+v.name()+" ")
	switch state {
	case "damaged":
		tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
		require.NoError(t, err)
		for _, path := range tables {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[len(b)/3] ^= 0x20
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
	case "without CURRENT":
		require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	case "open":
		store, err := db.Open(dir, nil)
		require.NoError(t, err)
		defer store.Close()
	}
	unchanged := reads && state != "open" // the writer may compact meanwhile
	var before map[string]uint32
	if unchanged {
		before = filesOf(t, dir)
	}
	args := append([]string{v.name(), dir}, matrixArgs(t, v)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	var out io.Writer = &stdout
	if v.name() == "serve" {
		out = &cancelingWriter{cancel: cancel} // it has said where the page is
	}
	code := run(ctx, args, strings.NewReader(""), out, &stderr)
	switch code {
	case exitOK, exitDifferent, exitNotFound:
	case exitFaults:
		switch {
		case state == "without CURRENT": // the remains of a database
		case state == "open" && (v.name() == "properties" || v.name() == "dump"): // a table that is being written
		default:
			require.Equal(t, "damaged", state)
		}
	case exitFailed:
		require.Regexp(t, "^sievedb: .+\n", stderr.String())
	default:
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if state == "sound" && v.name() != "create" && v.name() != "ingest" {
		require.NotEqual(t, exitFailed, code, stderr.String())
	}
	if state == "open" && (reads && v.name() != "diff") {
		require.NotEqual(t, exitFailed, code, stderr.String())
	}
	if state == "damaged" && (v.name() == "check" || v.name() == "dump") {
		require.Equal(t, exitFaults, code)
	}
	if unchanged {
		require.Equal(t, before, filesOf(t, dir), "%s changed the directory", v.name())
	}
}
