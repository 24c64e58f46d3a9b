package dump_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/vfs"
)

// The history of a golden database has the newest version of each key that the database has.
func TestHistoryHasTheNewestVersions(t *testing.T) {
	dirs, err := filepath.Glob("../../../testdata/golden/*/expected.txt")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, path := range dirs {
		type version struct {
			seq     uint64
			deleted bool
			value   string
		}
		newest := map[string]version{}
		dir := filepath.Join(filepath.Dir(path), "db")
		state, err := dump.History(vfs.OS, dir, func(ikey, value []byte) error {
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			if v, ok := newest[string(base.UserKey(ikey))]; !ok || v.seq <= seq {
				newest[string(base.UserKey(ikey))] = version{seq, kind == base.KindDelete, string(value)}
			}
			return nil
		})
		require.NoError(t, err, dir)
		require.NotEmpty(t, state.Comparer)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		puts := 0
		for l := range strings.Lines(string(text)) {
			fields := strings.Fields(l)
			key := unhex(t, fields[1])
			v, ok := newest[key]
			if fields[0] == "del" {
				require.True(t, !ok || v.deleted, "%s: %s", dir, l)
				continue
			}
			puts++
			require.True(t, ok && !v.deleted, "%s: %s", dir, l)
			if !strings.HasPrefix(fields[2], "sha256:") {
				require.Equal(t, unhex(t, fields[2]), v.value, "%s: %s", dir, l)
			}
		}
		live := 0
		for _, v := range newest {
			if !v.deleted {
				live++
			}
		}
		require.Equal(t, puts, live, dir)
	}
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	if s == "." {
		return ""
	}
	var out []byte
	_, err := fmt.Sscanf(s, "%x", &out)
	require.NoError(t, err)
	return string(out)
}

func TestHistoryRefusesDamageAndMissingTables(t *testing.T) {
	source := "../../../testdata/golden/leveldb-1.23-uncompressed/db"
	entries, err := os.ReadDir(source)
	require.NoError(t, err)
	for _, spoiled := range entries {
		kind := dump.KindOf(spoiled.Name())
		if kind != dump.Table && kind != dump.Current && kind != dump.Manifest {
			continue
		}
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
		path := filepath.Join(dir, spoiled.Name())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[len(content)/3] ^= 0x40
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err = dump.History(vfs.OS, dir, func(_, _ []byte) error { return nil })
		require.ErrorIs(t, err, base.ErrCorruption, spoiled.Name())
		require.NoError(t, os.Remove(path))
		_, err = dump.History(vfs.OS, dir, func(_, _ []byte) error { return nil })
		require.Error(t, err, spoiled.Name())
	}
}

func TestErrorsEndAHistory(t *testing.T) {
	for _, name := range []string{"leveldb-1.23-uncompressed", "goleveldb-log-only"} {
		failAtEveryOperation(t, func(fsys vfs.FS) error {
			_, err := dump.History(fsys, "../../../testdata/golden/"+name+"/db", func(_, _ []byte) error { return nil })
			return err
		})
	}
}
