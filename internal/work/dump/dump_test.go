package dump_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// lines dumps a file and returns a line for each item.
func lines(t testing.TB, fsys vfs.FS, path string, o dump.Options) (text []string, sum dump.Summary) {
	t.Helper()
	defer damage.Watch("the dump of " + path)()
	sum, err := dump.File(fsys, path, o, func(i *dump.Item) error {
		text = append(text, line(i))
		return nil
	})
	require.NoError(t, err)
	return text, sum
}

func line(i *dump.Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d+%d %s", i.Offset, i.Size, i.Kind)
	for _, f := range i.Fields {
		if v, ok := f.Value.([]byte); ok {
			fmt.Fprintf(&b, " %s=%q", f.Name, v)
		} else {
			fmt.Fprintf(&b, " %s=%v", f.Name, f.Value)
		}
	}
	if i.Fault != "" {
		fmt.Fprintf(&b, " FAULT %s", i.Fault)
	}
	return b.String()
}

// write puts a file into an empty file system in memory.
func write(t testing.TB, name string, content []byte) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("db"))
	fixture.WriteFile(t, fsys, filepath.Join("db", name), content)
	return fsys
}

// smallTable is a table of three blocks: "a", "b" (deleted), "c".
func smallTable(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := sstable.NewWriter(&buf, sstable.WriterOptions{BlockSize: 16, Compression: sstable.NoCompression, Filter: filter.NewBloomPolicy(10)})
	for i, k := range []sstable.Key{{User: []byte("a"), Seq: 1}, {User: []byte("b"), Seq: 2, Deletion: true}, {User: []byte("c"), Seq: 3}} {
		value := []byte("value " + string(rune('0'+i)))
		if k.Deletion {
			value = nil
		}
		require.NoError(t, w.Add(k.Append(nil), value))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	return buf.Bytes()
}

func TestATableShowsEveryField(t *testing.T) {
	fsys := write(t, "000005.ldb", smallTable(t))
	got, sum := lines(t, fsys, "db/000005.ldb", dump.Options{Entries: true})
	require.Zero(t, sum.Faults)
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"footer metaindex offset=", "magic=0xdb4775248b80fb57", `metaindex entry name="filter.leveldb.BuiltinBloomFilter2"`,
		"filter block compression=none", "filters=1 base lg=11", `property name="entries" value=3`, `property name="deletions" value=1`,
		"index block compression=none", `index entry block=0 separator="a" separator sequence=`, "data block compression=none",
		`entry key="a" sequence=1 operation=put value="value 0"`, `entry key="b" sequence=2 operation=delete`, `entry key="c" sequence=3 operation=put value="value 2"`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "FAULT")
	without, _ := lines(t, fsys, "db/000005.ldb", dump.Options{})
	require.Len(t, without, len(got)-3, "without entries")
}

// One damaged byte costs the part that it is in, and no other entry.
func TestADumpContinuesAfterDamage(t *testing.T) {
	table := smallTable(t)
	sound, _ := lines(t, write(t, "000005.ldb", table), "db/000005.ldb", dump.Options{Entries: true})
	entries := func(lines []string) (n int) {
		for _, l := range lines {
			if strings.Contains(l, " entry key=") {
				n++
			}
		}
		return n
	}
	require.Equal(t, 3, entries(sound))
	for at := range table {
		damaged := bytes.Clone(table)
		damaged[at] ^= 0x10
		got, sum := lines(t, write(t, "000005.ldb", damaged), "db/000005.ldb", dump.Options{Entries: true})
		require.NotZero(t, sum.Faults, "byte %d", at)
		require.GreaterOrEqual(t, entries(got), 2, "byte %d", at)
	}
	for size := range table {
		_, sum := lines(t, write(t, "000005.ldb", table[:size]), "db/000005.ldb", dump.Options{Entries: true})
		require.NotZero(t, sum.Faults, "cut to %d bytes", size)
	}
}

// golden calls fn with each file of the golden databases that can be dumped.
func golden(t testing.TB, fn func(path string)) {
	paths, err := filepath.Glob("../../../testdata/golden/*/db/*")
	require.NoError(t, err)
	require.Greater(t, len(paths), 50)
	for _, path := range paths {
		if kind := dump.KindOf(path); kind != dump.Unknown && kind != dump.Closed { // whose marks are older than the format
			fn(path)
		}
	}
}

func TestGoldenFilesHaveNoFaults(t *testing.T) {
	kinds := map[dump.Kind]int{}
	golden(t, func(path string) {
		got, sum := lines(t, vfs.OS, path, dump.Options{Entries: true})
		require.Zero(t, sum.Faults, "%s: %s", path, strings.Join(got, "\n"))
		kinds[dump.KindOf(path)]++
	})
	require.Len(t, kinds, 4, "tables, logs, MANIFESTs and CURRENT")
}

// Damage to files of the other kinds is marked too, and never ends a dump.
func TestDamageToSmallFilesIsMarked(t *testing.T) {
	seen := map[dump.Kind]bool{}
	golden(t, func(path string) {
		kind := dump.KindOf(path)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if kind == dump.Table || seen[kind] || len(content) == 0 || len(content) > 8<<10 {
			return
		}
		seen[kind] = true
		for at := range content {
			damaged := bytes.Clone(content)
			damaged[at] ^= 0x04
			name := filepath.Base(path)
			_, sum := lines(t, write(t, name, damaged), filepath.Join("db", name), dump.Options{Entries: true})
			digit := kind == dump.Current && damaged[at] >= '0' && damaged[at] <= '9' // another MANIFEST's name
			require.True(t, sum.Faults > 0 || sum.Torn || digit, "%s, byte %d", path, at)
		}
	})
	require.Len(t, seen, 3)
}

func TestACloseMarkShowsItsFiles(t *testing.T) {
	mark := manifest.CloseMark{Log: manifest.FileMark{Num: 7, Size: 70}, Manifest: manifest.FileMark{Num: 8, Size: 80}, LastSeq: 9}
	content := mark.Encode()
	got, sum := lines(t, write(t, "CLOSED", content), "db/CLOSED", dump.Options{})
	require.Zero(t, sum.Faults)
	require.Len(t, got, 1)
	require.Contains(t, got[0], "log=7 log size=70 manifest=8 manifest size=80")
	require.Contains(t, got[0], "last sequence=9")
	for at := range content {
		damaged := bytes.Clone(content)
		damaged[at] ^= 1
		_, sum := lines(t, write(t, "CLOSED", damaged), "db/CLOSED", dump.Options{})
		require.Equal(t, uint64(1), sum.Faults, "byte %d", at)
	}
}

func TestTheRecordOfADatabaseShowsEachOption(t *testing.T) {
	o := manifest.Options{ChangeAge: 60e9, Compression: 3, BlockSize: 1 << 13, Filters: []manifest.NamedFilter{{Name: "mine"}}}
	r := (&manifest.Recorded{Prefixes: [][]byte{[]byte("t/")}}).WithOptions(&o)
	e := fixture.EmptyEdit()
	r.AddTo(e)
	got, sum := lines(t, write(t, "MANIFEST-000001", fixture.Log(t, e.Encode(nil))), "db/MANIFEST-000001", dump.Options{})
	require.Zero(t, sum.Faults)
	require.Contains(t, strings.Join(got, "\n"), ` recorded expiry prefix="t/" Changes.Age=1m0s Tables.Compression=zstd Tables.BlockSize=8192 Filters.Policy=mine`)

	later := bytes.Replace(e.Encode(nil), []byte{66, 1, 3}, []byte{66, 1, 9}, 1)
	got, _ = lines(t, write(t, "MANIFEST-000001", fixture.Log(t, later)), "db/MANIFEST-000001", dump.Options{})
	require.Contains(t, strings.Join(got, "\n"), `field 66 of a later version="\t"`)
}

func TestAFileOfAnUnknownNameNeedsItsKind(t *testing.T) {
	fsys := write(t, "backup.bin", smallTable(t))
	_, err := dump.File(fsys, "db/backup.bin", dump.Options{}, nil)
	require.ErrorContains(t, err, "say which kind of file it is")
	_, sum := lines(t, fsys, "db/backup.bin", dump.Options{Kind: dump.Table})
	require.Zero(t, sum.Faults)
	_, err = dump.File(fsys, "db/000007.log", dump.Options{}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
