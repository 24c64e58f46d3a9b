package db_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// madeEntry is an entry of a table that a test makes. An empty value is a deletion.
type madeEntry struct {
	key   string
	seq   uint64
	value string
}

// makeTable writes a table, as another machine would. The entries are in the order of internal keys.
func makeTable(t testing.TB, fsys vfs.FS, path string, entries []madeEntry, also ...func(*sstable.WriterOptions)) string {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(filepath.Dir(path)))
	file, err := vfs.Replace(fsys, path)
	require.NoError(t, err)
	o := sstable.WriterOptions{BlockSize: 256, Filter: filter.NewCacheLineBloomPolicy(10)}
	for _, f := range also {
		f(&o)
	}
	w := sstable.NewWriter(file, o)
	for _, e := range entries {
		k := sstable.Key{User: []byte(e.key), Seq: e.seq, Deletion: e.value == ""}
		require.NoError(t, w.Add(k.Append(nil), []byte(e.value)))
	}
	_, err = w.Finish()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return path
}

// tableOfKeys writes a table of the test's values for keys [from, to).
func tableOfKeys(fsys vfs.FS, path string, from, to int, seq uint64) error {
	if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := fsys.Create(path)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(file, sstable.WriterOptions{})
	for i := from; i < to && err == nil; i++ {
		err = w.Add(sstable.Key{User: testKey(i), Seq: seq}.Append(nil), testValue(i))
	}
	if err == nil {
		_, err = w.Finish()
	}
	return errors.Join(err, file.Close())
}

// keysFrom returns entries with one sequence number for keys [from, to).
func keysFrom(from, to int, seq uint64, value string) (entries []madeEntry) {
	for i := from; i < to; i++ {
		entries = append(entries, madeEntry{string(testKey(i)), seq, value})
	}
	return entries
}

func mustIngest(t testing.TB, d *db.DB, paths ...string) report.Ingest {
	t.Helper()
	info, err := d.Ingest(background, paths, nil)
	require.NoError(t, err)
	return info
}

func TestTablesThatOverlapNothingAreLinked(t *testing.T) {
	o := testOptions(vfs.NewMem())
	var events []report.Ingest
	o.EventListener = &db.EventListener{IngestEnd: func(i report.Ingest) { events = append(events, i) }}
	d := openTest(t, o)
	fill(t, d, 500, 600)
	last := d.Metrics().LastSequence
	a := makeTable(t, o.FS, "in/a.ldb", keysFrom(0, 100, 0, "a"))
	b := makeTable(t, o.FS, "in/b.sst", keysFrom(700, 800, 7, "b"))
	c := makeTable(t, o.FS, "in/c", keysFrom(900, 950, last+1000, "c"))
	before := readFile(t, o.FS, a)
	info := mustIngest(t, d, a, b, c)
	require.Equal(t, 3, info.Linked)
	require.Zero(t, info.Copied+info.Rewritten)
	require.EqualValues(t, 250, info.Entries)
	require.Positive(t, info.BytesLinked)
	require.Equal(t, last+1001, info.Seq)
	require.Equal(t, info.Seq, d.Metrics().LastSequence)
	require.Equal(t, report.IngestMetrics{Count: 1, Linked: 3, BytesLinked: info.BytesLinked}, d.Metrics().Ingests)
	require.Len(t, events, 1)
	require.Equal(t, info.Tables, events[0].Tables)
	_, err := d.Ingest(background, []string{"in/none"}, nil)
	require.Equal(t, err, events[1].Err)
	require.Positive(t, events[1].Duration)
	require.EqualValues(t, 1, d.Metrics().Ingests.Count)
	for i, want := range map[int]string{0: "a", 99: "a", 700: "b", 949: "c"} {
		requireValue(t, d, testKey(i), []byte(want))
	}
	require.Empty(t, namesOf(t, o.FS, base.FileTemp))
	require.Equal(t, before, readFile(t, o.FS, a))

	// The store does not depend on the given names, and later writes are newer.
	require.NoError(t, d.Put(testKey(920), []byte("later"), db.NoSync))
	require.NoError(t, o.FS.Remove(a))
	require.NoError(t, d.Compact(background, nil, nil))
	require.NoError(t, d.Close())
	d = openTest(t, o)
	requireValue(t, d, testKey(920), []byte("later"))
	requireValue(t, d, testKey(5), []byte("a"))
	requireNoFaults(t, d)
	_, err = o.FS.Stat(b)
	require.NoError(t, err)
}

func TestTablesThatOverlapAreRewrittenAndTheLastOneHasPrecedence(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	fill(t, d, 0, 300)
	require.NoError(t, d.Flush())
	fill(t, d, 300, 320) // in the memtable
	older := makeTable(t, o.FS, "in/1", append([]madeEntry{{string(testKey(10)), 90, "newest"}, {string(testKey(10)), 80, "old"}},
		keysFrom(11, 50, 1<<40, "first")...))
	newer := makeTable(t, o.FS, "in/2", []madeEntry{{string(testKey(20)), 1, "second"}, {string(testKey(21)), 1, ""}})
	memory := makeTable(t, o.FS, "in/3", keysFrom(310, 311, 0, "third"))
	alone := makeTable(t, o.FS, "in/4", keysFrom(400, 401, 0, "fourth"))
	info := mustIngest(t, d, older, newer, memory, alone)
	require.Equal(t, 3, info.Rewritten)
	require.Equal(t, 1, info.Linked)
	requireValue(t, d, testKey(10), []byte("newest"))
	requireValue(t, d, testKey(20), []byte("second"))
	requireValue(t, d, testKey(22), []byte("first"))
	requireValue(t, d, testKey(310), []byte("third"))
	requireValue(t, d, testKey(400), []byte("fourth"))
	requireAbsent(t, d, testKey(21))
	require.Less(t, info.Seq, uint64(1<<33), "the number of a table that was rewritten does not count")

	metrics := d.Metrics().Ingests
	require.Equal(t, report.IngestMetrics{Count: 1, Linked: 1, Rewritten: 3, BytesLinked: info.BytesLinked, BytesWritten: info.BytesRewritten}, metrics)
	require.Positive(t, metrics.BytesWritten)
	require.Equal(t, 2, mustIngest(t, d, newer, older).Rewritten)
	requireValue(t, d, testKey(20), []byte("first"))
	require.NoError(t, d.Put(testKey(20), []byte("later"), db.NoSync))
	requireValue(t, d, testKey(20), []byte("later"))
	require.Empty(t, namesOf(t, o.FS, base.FileTemp))
}

// A linked table lies between two rewritten ones, which therefore must not be in one table.
func TestALinkedTableBetweenRewrittenOnes(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	for _, i := range []int{0, 20} {
		require.NoError(t, d.Put(testKey(i), []byte("old"), db.NoSync))
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Compact(background, nil, testKey(10)))
	var paths []string
	for i := range 3 {
		paths = append(paths, makeTable(t, o.FS, fmt.Sprint("in/", i), keysFrom(10*i, 10*i+5, 0, fmt.Sprint("new", i))))
	}
	info := mustIngest(t, d, paths...)
	require.Equal(t, 1, info.Linked)
	require.Equal(t, 2, info.Rewritten)
	added := 0
	for _, n := range info.Tables {
		added += n
	}
	require.Equal(t, 3, added)
	for i := range 3 {
		requireValue(t, d, testKey(10*i), fmt.Append(nil, "new", i))
	}
	require.NoError(t, d.Compact(background, nil, nil))
	for i := range 3 {
		requireValue(t, d, testKey(10*i), fmt.Append(nil, "new", i))
	}
}

func TestTablesThatCannotBeIngested(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	d := openTest(t, o)
	fill(t, d, 0, 10)
	require.NoError(t, d.Flush())
	good := makeTable(t, mem, "in/good", keysFrom(20, 200, 5, "good"))
	spoiled := func(name string, spoil func([]byte) []byte) string {
		data := spoil(slices.Clone(readFile(t, mem, good)))
		writeFile(t, mem, name, data)
		return name
	}
	own, err := mem.List("db")
	require.NoError(t, err)
	own = slices.DeleteFunc(own, func(name string) bool { return !strings.HasSuffix(name, ".ldb") })
	before := len(namesOf(t, mem, base.FileTable))
	seq := d.Metrics().LastSequence
	foreign := func(magic uint64) func([]byte) []byte {
		return func(b []byte) []byte { return binary.LittleEndian.AppendUint64(b[:len(b)-8], magic) }
	}
	for name, c := range map[string]struct {
		paths []string
		want  string
		is    error
	}{
		"missing":   {[]string{good, "in/none"}, "in/none", fs.ErrNotExist},
		"directory": {[]string{"in"}, "want a table", nil},
		"twice":     {[]string{good, "./in/../in/good"}, "is given twice", nil},
		"own":       {[]string{"db/" + own[0]}, "in the directory of this database", nil},
		"empty":     {[]string{spoiled("in/empty", func([]byte) []byte { return nil })}, "in/empty", db.ErrCorruption},
		"cut":       {[]string{good, spoiled("in/cut", func(b []byte) []byte { return b[:len(b)-1] })}, "in/cut", db.ErrCorruption},
		"flipped":   {[]string{spoiled("in/flipped", func(b []byte) []byte { b[len(b)/4] ^= 1; return b })}, "in/flipped", db.ErrCorruption},
		"rocksdb":   {[]string{spoiled("in/rocksdb", foreign(0x88e241b785f4cff7))}, "a table of RocksDB", db.ErrForeign},
		"pebble":    {[]string{spoiled("in/pebble", foreign(0xb3aa9ff0b3aa9ff0))}, "'sievedb load'", db.ErrForeign},
		"order": {[]string{makeTable(t, mem, "in/order", []madeEntry{{"b", 1, "v"}, {"a", 1, "v"}}, func(o *sstable.WriterOptions) {
			o.Comparer, o.Filter = &db.Comparer{Name: "test.Reverse", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}, nil
		})}, `by comparer "leveldb.BytewiseComparator"`, nil},
		"filter": {[]string{makeTable(t, mem, "in/filter", keysFrom(20, 30, 1, "v"), func(o *sstable.WriterOptions) { o.Filter = lying{} })}, "denies a key", nil},
		"key":    {[]string{makeTable(t, mem, "in/key", []madeEntry{{strings.Repeat("k", db.MaxKeySize+1), 1, "v"}})}, "MaxKeySize", db.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Ingest(background, c.paths, nil)
			require.ErrorContains(t, err, "sievedb: Ingest: ")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "in")
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.Empty(t, namesOf(t, mem, base.FileTemp))
			require.Equal(t, before, len(namesOf(t, mem, base.FileTable)))
			require.Equal(t, seq, d.Metrics().LastSequence)
		})
	}
	require.Equal(t, 1, mustIngest(t, d, good).Linked)
	require.Zero(t, mustIngest(t, d).Seq)
	require.Zero(t, mustIngest(t, d, makeTable(t, mem, "in/none", nil)).Entries)
}

// lying is the policy of a store's filters whose filter denies every key.
type lying struct{}

func (lying) Name() string { return filter.NewCacheLineBloomPolicy(10).Name() }
func (lying) NewGenerator() filter.Generator {
	return &lyingGenerator{filter.NewCacheLineBloomPolicy(10).NewGenerator()}
}
func (lying) KeyMayMatch(key, f []byte) bool { return true }
func (l lying) CreateFilter(dst []byte, keys [][]byte) []byte {
	return filter.NewCacheLineBloomPolicy(10).CreateFilter(dst, [][]byte{[]byte("another key")})
}

type lyingGenerator struct{ filter.Generator }

func (g *lyingGenerator) AppendFilter(dst []byte) []byte { return lying{}.CreateFilter(dst, nil) }
func (g *lyingGenerator) AppendChecked(dst []byte) ([]byte, int) {
	return g.AppendFilter(dst), 0
}

func TestSymbolicLinksAndOtherFileSystems(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(nil)
	d := openDir(t, filepath.Join(dir, "db"), o)
	defer d.Close()
	a := makeTable(t, vfs.OS, filepath.Join(dir, "in", "a"), keysFrom(0, 10, 1, "a"))
	b := makeTable(t, vfs.OS, filepath.Join(dir, "in", "b"), keysFrom(20, 30, 1, "b"))
	link := filepath.Join(dir, "in", "link")
	if os.Symlink(a, link) == nil {
		_, err := d.Ingest(background, []string{link}, nil)
		require.ErrorContains(t, err, "it is a symbolic link; name the file that it points to")
	}
	info, err := d.Ingest(background, []string{a}, &db.IngestOptions{Copy: true})
	require.NoError(t, err)
	require.Equal(t, 1, info.Copied)
	require.NoError(t, os.WriteFile(a, []byte("changed"), 0o600))
	require.Equal(t, 1, mustIngest(t, d, b).Linked)
	requireValue(t, d, testKey(5), []byte("a"))
	requireValue(t, d, testKey(25), []byte("b"))
	require.NoError(t, d.Compact(background, nil, nil))
}

// A file that another program writes to while it is checked is refused.
func TestATableThatChangesIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	h := hook{at: of(wrap.OpSyncDir, "")}
	d := openTest(t, testOptions(h.over(mem)))
	require.NoError(t, d.Put([]byte("a"), nil, db.NoSync)) // so that a flush syncs the directory
	path := makeTable(t, mem, "in/a", keysFrom(0, 10, 1, "a"))
	data := readFile(t, mem, path)
	require.NoError(t, mem.Remove(path))
	f, err := mem.Create(path)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	h.arm(func() { require.NoError(t, second(f.Write([]byte("more")))) })
	_, err = d.Ingest(background, []string{path}, nil)
	require.ErrorContains(t, err, "in/a: it was changed while it was checked")
	require.True(t, h.called())
	require.Empty(t, namesOf(t, mem, base.FileTemp))
}

// The bug: a table that was replaced in place between its check and its rewriting was added unchecked.
func TestATableThatChangesBeforeItIsRewrittenIsRefused(t *testing.T) {
	dir, opened := t.TempDir(), 0
	path := makeTable(t, vfs.OS, filepath.Join(dir, "in", "a"), keysFrom(0, 10, 1, "a"))
	other := readFile(t, vfs.OS, makeTable(t, vfs.OS, filepath.Join(dir, "in", "b"), keysFrom(0, 20, 1, "b")))
	d, err := db.Open(filepath.Join(dir, "db"), testOptions(wrap.NewFaulty(vfs.OS, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && strings.HasSuffix(op.Name, ".dbtmp") {
			if opened++; opened == 4 { // after those of the check
				if err := os.WriteFile(path, other, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
		return nil
	})))
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Put(testKey(5), []byte("old"), db.NoSync))
	_, err = d.Ingest(background, []string{path}, nil)
	require.ErrorContains(t, err, "it was changed while it was checked")
	require.GreaterOrEqual(t, opened, 4)
	require.Equal(t, map[string]string{string(testKey(5)): "old"}, contentsIn(t, d))
}

func TestSequenceNumbersOfTablesNeverUseUpTheStores(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	high := makeTable(t, o.FS, "in/high", keysFrom(0, 10, base.MaxSeq, "high"))
	require.Equal(t, 1, mustIngest(t, d, high).Rewritten)
	requireValue(t, d, testKey(5), []byte("high"))
	require.Less(t, d.Metrics().LastSequence, uint64(1<<33))
	require.Equal(t, 1, mustIngest(t, d, makeTable(t, o.FS, "in/2", keysFrom(20, 30, 1<<47, "2"))).Linked)
	require.NoError(t, d.Put(testKey(5), []byte("later"), db.NoSync))
	requireValue(t, d, testKey(5), []byte("later"))

	for _, left := range []uint64{1 << 30, 1, 0} {
		advance(t, d, base.MaxSeq-left)
		info, err := d.Ingest(background, []string{high}, nil)
		if left == 1<<30 {
			require.NoError(t, err)
			require.Equal(t, 1, info.Rewritten)
			requireValue(t, d, testKey(5), []byte("high"))
			require.NoError(t, d.Flush())
			continue
		}
		require.ErrorContains(t, err, "too few sequence numbers")
		_, err = d.Ingest(background, []string{makeTable(t, o.FS, "in/3", keysFrom(50, 60, 0, "3"))}, nil)
		require.ErrorContains(t, err, "too few sequence numbers")
	}
}

func TestIngestedValuesUnderExpiryHaveEnvelopes(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	o := testOptions(vfs.NewMem())
	o.Expiry.Prefixes = [][]byte{[]byte("s/")}
	o.Expiry.Clock = func() time.Time { return now }
	d := openTest(t, o)
	_, err := d.Ingest(background, []string{makeTable(t, o.FS, "in/plain", []madeEntry{{"s/a", 1, "plain"}})}, nil)
	require.ErrorIs(t, err, db.ErrNoEnvelope)
	require.ErrorContains(t, err, "in/plain")
	seal := func(at uint64, value string) string { return string(expiry.Append(nil, at, []byte(value))) }
	mustIngest(t, d, makeTable(t, o.FS, "in/sealed", []madeEntry{{"r", 1, "plain"}, {"s/a", 1, seal(0, "kept")}, {"s/b", 1, seal(999_999, "gone")}}))
	requireValue(t, d, []byte("r"), []byte("plain"))
	requireValue(t, d, []byte("s/a"), []byte("kept"))
	requireAbsent(t, d, []byte("s/b"))

	// Properties that say that a table has expired as a whole are compared with the values.
	lie := func(o *sstable.WriterOptions) {
		o.ExpiryKeys, o.Expiry = d.Expiry().Sum(), func([]byte, []byte) (uint64, bool) { return 5, true }
	}
	for i, value := range []string{seal(0, "v"), seal(6, "v"), "plain", seal(5, "looks like an envelope, but the key has none")} {
		_, err = d.Ingest(background, []string{makeTable(t, o.FS, fmt.Sprint("in/lie", i), []madeEntry{{"q", 1, value}}, lie)}, nil)
		require.ErrorContains(t, err, "its properties say")
	}
}

func TestIngestEndsWithItsContextAndTheStore(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	path := makeTable(t, o.FS, "in/a", keysFrom(0, 10, 1, "a"))
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := d.Ingest(ctx, []string{path}, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, namesOf(t, o.FS, base.FileTemp))

	var once sync.Once
	closed := make(chan error, 1)
	slow := testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpLink {
			once.Do(func() {
				go func() { closed <- d.Close() }()
				<-d.Closing()
			})
		}
		return nil
	}))
	d = mustOpen(t, slow)
	_, err = d.Ingest(background, []string{makeTable(t, slow.FS, "in/a", keysFrom(0, 10, 1, "a"))}, nil)
	require.Equal(t, db.ErrClosed, err)
	require.NoError(t, <-closed)
	require.Empty(t, namesOf(t, slow.FS, base.FileTemp), "Close waits for it")
}

// changeByte changes one byte of a small table, and the checksum of its block.
func changeByte(t testing.TB, data []byte, at int, to byte) {
	t.Helper()
	for start := range at + 1 {
		for end := at; end+5 <= len(data); end++ { // end is where the compression byte is
			if util.Fixed32(data[end+1:]) == util.MaskCRC(util.CRC32C(data[start:end+1])) {
				data[at] = to
				binary.LittleEndian.PutUint32(data[end+1:], util.MaskCRC(util.CRC32C(data[start:end+1])))
				return
			}
		}
	}
	require.Fail(t, "no block has that byte")
}

// The store finds new entries by the sequence numbers in the properties, and counts by the others.
func TestPropertiesThatLieAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	path := makeTable(t, mem, "in/a", keysFrom(0, 3, 5, "v"))
	table := readFile(t, mem, path)
	for _, name := range []string{"smallest-seq", "largest-seq", "entries", "deletions"} {
		for _, to := range []byte{4, 6} {
			lie := bytes.Clone(table)
			// The first bytes of a name may be shared with the property before.
			at := bytes.LastIndex(lie, []byte(name[2:])) + len(name) - 2
			changeByte(t, lie, at, to)
			writeFile(t, mem, path, lie)
			_, err := d.Ingest(background, []string{path}, nil)
			if name == "largest-seq" && to == 6 {
				require.NoError(t, err, "some entries may have lost their numbers")
				require.EqualValues(t, 7, d.Metrics().LastSequence)
				continue
			}
			require.ErrorContains(t, err, "in/a: its properties say that")
		}
	}
}
