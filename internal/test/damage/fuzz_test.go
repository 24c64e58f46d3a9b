package damage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// The bits of FuzzDirectory's mode.
const (
	fuzzReadOnly    = 1 << iota
	fuzzFrameEdit   // the MANIFEST's bytes are the payload of one record
	fuzzFrameBatch  // the log's bytes are the payload of one record
	fuzzNamesTable  // an edit that names the table with its size comes first
	fuzzCompact     // the whole database is compacted
	fuzzPrefixSound // valid records come first in MANIFEST and log
)

// FuzzDirectory opens a directory of arbitrary bytes, reads it, and may compact it. Errors are
// corruption, or name the comparer. Memory is bounded, and a refused Open changes nothing.
func FuzzDirectory(f *testing.F) {
	table, meta := craft(f, 5, 4, "a", "b", "m")
	manifestBytes := fixture.Log(f, fixture.EmptyEdit().Encode(nil))
	batch := fixture.Batch(6, "v", "a", "k")
	current := []byte("MANIFEST-000002\n")
	f.Add(current, manifestBytes, fixture.Log(f, batch), table, byte(0))
	f.Add(current, fixture.EmptyEdit().Encode(nil), batch, table, byte(fuzzFrameEdit|fuzzFrameBatch|fuzzNamesTable|fuzzCompact))
	f.Add(current, []byte{}, batch, table, byte(fuzzFrameBatch|fuzzNamesTable|fuzzReadOnly))
	f.Add(current, []byte{}, []byte{}, table, byte(fuzzNamesTable|fuzzPrefixSound|fuzzCompact))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, byte(0))
	for _, c := range goldenSeeds(f) {
		f.Add(c[0], c[1], c[2], c[3], byte(fuzzReadOnly))
		f.Add(c[0], c[1], c[2], c[3], byte(fuzzNamesTable|fuzzPrefixSound))
	}
	f.Fuzz(func(t *testing.T, current, edits, log, table []byte, mode byte) {
		defer damage.Watch("a forged directory")()
		e := fixture.EmptyEdit()
		if mode&fuzzNamesTable != 0 {
			e.Added = []version.LevelFile{{Level: 1, File: version.NewFileMeta(5, uint64(len(table)), meta.Smallest, meta.Largest)}}
		}
		var before, sound [][]byte
		if mode&(fuzzNamesTable|fuzzPrefixSound) != 0 {
			before = [][]byte{e.Encode(nil)}
		}
		if mode&fuzzPrefixSound != 0 {
			sound = [][]byte{fixture.Batch(6, "v", "x")}
		}
		im := damage.Image{
			"CURRENT": current, "000005.ldb": table,
			"MANIFEST-000002": fuzzLog(t, before, edits, mode&fuzzFrameEdit != 0),
			"000003.log":      fuzzLog(t, sound, log, mode&fuzzFrameBatch != 0),
		}
		err := openHostile(t, im, db.Options{ReadOnly: mode&fuzzReadOnly != 0})
		if err != nil {
			require.True(t, isExpectedError(err), "%v", err)
			return
		}
		if mode&fuzzCompact == 0 || mode&fuzzReadOnly != 0 {
			return
		}
		mem, err := im.FS("db")
		require.NoError(t, err)
		d := storetest.MustOpen(t, &db.Options{
			FS: mem, Memtables: db.MemtableOptions{Size: 16 << 10}, Cache: db.CacheOptions{Size: 64 << 10},
		})
		if err := d.Compact(t.Context(), nil, nil); err != nil {
			require.True(t, isExpectedError(err), "%v", err)
		}
		require.NoError(t, d.Close())
	})
}

// fuzzLog returns a log of the records followed by b, which is one more record if frame is set, or raw bytes.
func fuzzLog(t testing.TB, records [][]byte, b []byte, frame bool) []byte {
	if frame {
		return fixture.Log(t, append(records, b)...)
	}
	return append(fixture.Log(t, records...), b...)
}

// isExpectedError reports whether a damaged directory may cause err.
func isExpectedError(err error) bool {
	return errors.Is(err, db.ErrCorruption) || errors.Is(err, db.ErrNewer) || strings.Contains(err.Error(), "was created with comparer")
}

// goldenSeeds returns CURRENT, MANIFEST, a log and a table of each small
// directory in testdata that other programs wrote.
func goldenSeeds(f *testing.F) (seeds [][4][]byte) {
	dirs, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "golden", "*", "db"))
	require.NoError(f, err)
	for _, dir := range dirs {
		var seed [4][]byte
		entries, err := os.ReadDir(dir)
		require.NoError(f, err)
		for _, e := range entries {
			kind, _, ok := base.ParseFileName(e.Name())
			slot, known := map[base.FileKind]int{base.FileCurrent: 0, base.FileManifest: 1, base.FileLog: 2, base.FileTable: 3, base.FileOldTable: 3}[kind]
			if !ok || !known {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(f, err)
			if len(b) <= 8<<10 {
				seed[slot] = b
			}
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
