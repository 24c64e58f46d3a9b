package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
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
	require.NoError(t, result.Err(w.Finish()))
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
	paths := result.Of(filepath.Glob("../../../testdata/golden/*/db/*"))(t)
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
		content := result.Of(os.ReadFile(path))(t)
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
	require.ErrorIs(t, result.Err(dump.File(fsys, "db/000007.log", dump.Options{}, nil)), os.ErrNotExist)
}

// FuzzFile: no file of any kind makes a dump panic or fail; the error is only that of reading.
func FuzzFile(f *testing.F) {
	f.Add(uint8(dump.Table), smallTable(f))
	golden(f, func(path string) {
		if content, err := os.ReadFile(path); err == nil && len(content) < 4<<10 {
			f.Add(uint8(dump.KindOf(path)), content)
		}
	})
	f.Fuzz(func(t *testing.T, kind uint8, content []byte) {
		defer damage.Watch("a dump")()
		o := dump.Options{Kind: dump.Kind(kind%5 + 1), Entries: true}
		items := uint64(0)
		sum, err := dump.File(write(t, "file", content), "db/file", o, func(i *dump.Item) error {
			items++
			if i.Offset < 0 || i.Size < 0 {
				t.Fatalf("%s at %d has %d bytes", i.Kind, i.Offset, i.Size)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, items, sum.Items)
	})
}

// The bug: 3 MB of zeros in the middle of a log were called a torn end, as a crash leaves it, although records follow.
func TestAHoleBeforeReadableRecordsIsAFault(t *testing.T) {
	mem := vfs.NewMem()
	d := result.Of(db.Open("db", &db.Options{FS: mem}))(t)
	for i := range 200 {
		require.NoError(t, d.Put([]byte{byte(i)}, make([]byte, 1000), nil))
	}
	killed := mem.Kill()
	require.NoError(t, d.Close())
	path := "db/" + fixture.Names(t, killed, base.FileLog)[0]
	log := fixture.ReadFile(t, killed, path)
	clear(log[50<<10 : 120<<10])
	fixture.WriteFile(t, killed, path, log)

	fault := ""
	sum, err := dump.File(killed, path, dump.Options{}, func(i *dump.Item) error {
		if i.Fault != "" {
			fault = i.Fault
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, sum.Faults)
	require.False(t, sum.Torn)
	require.Contains(t, fault, "records follow")
}

// The history of a golden database has the newest version of each key that the database has.
func TestHistoryHasTheNewestVersions(t *testing.T) {
	dirs := result.Of(filepath.Glob("../../../testdata/golden/*/expected.txt"))(t)
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
		text := result.Of(os.ReadFile(path))(t)
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
	require.NoError(t, result.Err(fmt.Sscanf(s, "%x", &out)))
	return string(out)
}

func TestHistoryRefusesDamageAndMissingTables(t *testing.T) {
	source := "../../../testdata/golden/leveldb-1.23-uncompressed/db"
	entries := result.Of(os.ReadDir(source))(t)
	for _, spoiled := range entries {
		kind := dump.KindOf(spoiled.Name())
		if kind != dump.Table && kind != dump.Current && kind != dump.Manifest {
			continue
		}
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
		path := filepath.Join(dir, spoiled.Name())
		content := result.Of(os.ReadFile(path))(t)
		content[len(content)/3] ^= 0x40
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := dump.History(vfs.OS, dir, func(_, _ []byte) error { return nil })
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

// forged is a table under construction, with valid checksums whatever its blocks contain.
type forged struct{ file []byte }

// block appends a block with its trailer and returns its handle as bytes.
func (f *forged) block(data []byte) []byte {
	at := len(f.file)
	f.file = append(append(f.file, data...), 0)
	f.file = util.AppendFixed32(f.file, util.MaskCRC(util.CRC32C(f.file[at:])))
	return handle(at, len(data))
}

func handle(at, size int) []byte {
	return util.AppendUvarint64(util.AppendUvarint64(nil, uint64(at)), uint64(size))
}

func (f *forged) finish(metaindex, index []byte) []byte {
	foot := append(append([]byte{}, metaindex...), index...)
	foot = append(foot, make([]byte, 40-len(foot))...)
	return append(f.file, util.AppendFixed64(foot, 0xdb4775248b80fb57)...)
}

// entries returns a block of entries with one restart point: pairs of keys and values. Keys share
// shared bytes with the key before.
func entries(shared int, pairs ...[]byte) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		s := 0
		if i > 0 {
			s = shared
		}
		b = util.AppendUvarint32(b, uint32(s))
		b = util.AppendUvarint32(b, uint32(len(pairs[i])-s))
		b = util.AppendUvarint32(b, uint32(len(pairs[i+1])))
		b = append(append(b, pairs[i][s:]...), pairs[i+1]...)
	}
	return append(util.AppendFixed32(b, 0), 1, 0, 0, 0)
}

func ikey(user string) []byte { return base.AppendInternalKey(nil, []byte(user), 1, base.KindSet) }

func TestForgedTables(t *testing.T) {
	value := []byte("v")
	for _, c := range []struct {
		name  string
		table func(f *forged) []byte
		want  string
	}{
		{"an index that lists a block twice", func(f *forged) []byte {
			data := f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, ikey("a"), data, ikey("b"), data)))
		}, "overlaps the one before it"},
		{"an index entry without a handle", func(f *forged) []byte {
			f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, ikey("a"), []byte{0xff})))
		}, "a block handle in 1 bytes is malformed"},
		{"a separator that is no internal key", func(f *forged) []byte {
			data := f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, []byte("a"), data)))
		}, "the separator is not an internal key"},
		{"a metaindex that lists a block many times", func(f *forged) []byte {
			big := f.block(make([]byte, 500))
			names := [][]byte{}
			for i := range 5 {
				names = append(names, fmt.Appendf(nil, "filter.%d", i), big)
			}
			meta := f.block(entries(0, names...))
			return f.finish(meta, f.block(entries(0)))
		}, "more bytes than the file"},
		{"a metaindex entry without a handle", func(f *forged) []byte {
			return f.finish(f.block(entries(0, []byte("filter.x"), []byte{0xff})), f.block(entries(0)))
		}, "is malformed"},
		{"a property that is no number", func(f *forged) []byte {
			props := f.block(entries(0, []byte("entries"), []byte("many"), []byte("x"), []byte{0xff}))
			return f.finish(f.block(entries(0, []byte("filter.sievedb.properties"), props)), f.block(entries(0)))
		}, `name="entries" value="many"`},
		{"an unknown compression", func(f *forged) []byte {
			at := len(f.file)
			f.file = append(f.file, 1, 2, 3, 9)
			f.file = util.AppendFixed32(f.file, util.MaskCRC(util.CRC32C(f.file[at:])))
			return f.finish(f.block(entries(0)), f.block(entries(0, ikey("a"), handle(at, 3))))
		}, "data block FAULT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := lines(t, write(t, "000005.ldb", c.table(&forged{})), "db/000005.ldb", dump.Options{Entries: true})
			require.Contains(t, strings.Join(got, "\n"), c.want)
		})
	}
}

// A long key that many entries share would fill the output with terabytes.
func TestKeysThatExpandWithoutEnd(t *testing.T) {
	var f forged
	long := append(make([]byte, 100<<10), ikey("")...)
	pairs := [][]byte{}
	for range 5000 {
		pairs = append(pairs, long, nil)
	}
	data := f.block(entries(len(long), pairs...))
	meta := f.block(entries(0))
	table := f.finish(meta, f.block(entries(0, ikey("a"), data)))
	items, faults := 0, ""
	sum, err := dump.File(write(t, "000005.ldb", table), "db/000005.ldb", dump.Options{Entries: true}, func(i *dump.Item) error {
		items++
		faults += i.Fault
		return nil
	})
	require.NoError(t, err)
	require.Less(t, items, 3000)
	require.Equal(t, uint64(1), sum.Faults)
	require.Contains(t, faults, "expand too far")
}

// file is the bytes of a log, for a wal.Writer.
type file struct{ bytes []byte }

func (f *file) Write(p []byte) (int, error) { f.bytes = append(f.bytes, p...); return len(p), nil }
func (f *file) Sync() error                 { return nil }
func (f *file) Close() error                { return nil }

func TestRecordsThatAreNoBatchesOrEdits(t *testing.T) {
	var f file
	w := wal.NewWriter(&f)
	require.NoError(t, w.WriteRecord([]byte("no batch")))
	require.NoError(t, w.WriteRecord(append(util.AppendFixed64(nil, 5), 2, 0, 0, 0, 1, 1, 'a', 1, 'b'))) // two entries, says the head
	got, sum := lines(t, write(t, "000005.log", f.bytes), "db/000005.log", dump.Options{Entries: true})
	require.Equal(t, uint64(2), sum.Faults)
	require.Contains(t, strings.Join(got, "\n"), `entry operation=put sequence=5 key="a" value="b"`, "the readable part")
	got, sum = lines(t, write(t, "MANIFEST-000005", f.bytes), "db/MANIFEST-000005", dump.Options{})
	require.Equal(t, uint64(2), sum.Faults)
	require.Contains(t, strings.Join(got, "\n"), `record="no batch"`)
}

func TestUnwrittenZerosAndLostRecords(t *testing.T) {
	var f file
	w := wal.NewWriter(&f)
	for _, key := range []byte("abc") {
		require.NoError(t, w.WriteRecord(append(util.AppendFixed64(nil, uint64(key)), 1, 0, 0, 0, 1, 1, key, 1, 'v')))
	}
	got, sum := lines(t, write(t, "000005.log", append(f.bytes, make([]byte, 100)...)), "db/000005.log", dump.Options{})
	require.Zero(t, sum.Faults)
	require.Contains(t, got[len(got)-1], "+100 unwritten zeros")
	// A process was killed while it appended a record through memory: the first header is zeros.
	unfinished := append(bytes.Clone(f.bytes), make([]byte, 5000)...)
	copy(unfinished[len(f.bytes)+7:], "the bytes of a record")
	got, sum = lines(t, write(t, "000005.log", unfinished), "db/000005.log", dump.Options{})
	require.Zero(t, sum.Faults)
	require.True(t, sum.Torn)
	require.Contains(t, got[len(got)-2], "+28 lost bytes end of the log=torn")
	require.Contains(t, got[len(got)-1], "+4972 unwritten zeros")
	f.bytes[30] ^= 1
	got, sum = lines(t, write(t, "000005.log", f.bytes), "db/000005.log", dump.Options{Entries: true})
	require.Equal(t, uint64(1), sum.Faults)
	text := strings.Join(got, "\n")
	require.Contains(t, text, `key="a"`)
	require.Contains(t, text, "lost bytes end of the log=damaged FAULT")
	require.Contains(t, text, `key="c"`)
}

// An error of the receiver or of the disk ends a dump and is returned, wherever it happens.
func TestErrorsEndADump(t *testing.T) {
	stop := errors.New("stop")
	golden(t, func(path string) {
		if strings.Contains(path, "levels") || dump.KindOf(path) == dump.Table && !strings.Contains(path, "sievedb-both") {
			return // the same parts, many times
		}
		_, sum := lines(t, vfs.OS, path, dump.Options{Entries: true})
		for n := range min(sum.Items, 60) {
			items := uint64(0)
			_, err := dump.File(vfs.OS, path, dump.Options{Entries: true}, func(*dump.Item) error {
				if items++; items > n {
					return stop
				}
				return nil
			})
			require.ErrorIs(t, err, stop, "%s, item %d", path, n)
		}
		failAtEveryOperation(t, func(fsys vfs.FS) error {
			_, err := dump.File(fsys, path, dump.Options{Entries: true}, func(*dump.Item) error { return nil })
			return err
		})
	})
}

// failAtEveryOperation calls f with file systems of which one operation fails, each in turn, until f succeeds.
func failAtEveryOperation(t *testing.T, f func(fsys vfs.FS) error) {
	t.Helper()
	for n := uint64(1); ; n++ {
		failed := false
		fail := wrap.FailNth(n, wrap.ErrInjected)
		err := f(wrap.NewFaulty(vfs.OS, func(op wrap.Op) *wrap.Fault {
			fault := fail(op)
			failed = failed || fault != nil && op.Kind != wrap.OpClose
			return fault
		}))
		if !failed {
			require.NoError(t, err)
			if n > 100 {
				return
			}
			continue
		}
		require.ErrorIs(t, err, wrap.ErrInjected, "operation %d", n)
	}
}
