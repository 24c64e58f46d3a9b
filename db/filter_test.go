package db

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// tableWatch observes every read of a table file at the file system and finds out which part of the
// table it touches, by the positions of metaindex and index in the footer.
type tableWatch struct {
	*wrap.Counting
	t  *testing.T
	fs vfs.FS

	mu    sync.Mutex
	reads []tableRead
}

type tableRead struct {
	table string
	part  string // "data", "index", "meta": filter, properties, metaindex; "end": up to the end of the file
	bytes int
}

func watchTables(t *testing.T) *tableWatch {
	w := &tableWatch{t: t, fs: vfs.NewMem()}
	w.Counting = wrap.NewCounting(w.fs)
	w.Observe(func(op wrap.Op) {
		kind, _, ok := base.ParseFileName(filepath.Base(op.Name))
		if op.Kind != wrap.OpRead || !ok || kind != base.FileTable {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reads = append(w.reads, tableRead{filepath.Base(op.Name), w.partOf(op), op.N})
	})
	return w
}

// partOf reads the table's footer from the underlying file system, which is not observed. It has
// the handles of metaindex and index, each offset and size as varints. LevelDB's order of the parts
// is data, meta blocks, metaindex, index, footer. The data ends where the first meta block begins.
func (w *tableWatch) partOf(op wrap.Op) string {
	data := readFile(w.t, w.fs, op.Name)
	footer := data[len(data)-48:]
	var fields [4]uint64
	for i := range fields {
		v, n := binary.Uvarint(footer)
		require.Positive(w.t, n)
		fields[i], footer = v, footer[n:]
	}
	index := fields[2]
	switch off, end := uint64(op.Offset), uint64(op.Offset)+uint64(op.Length); {
	case end == uint64(len(data)):
		return "end" // the read opens the table
	case end > index:
		return "index"
	case off >= w.dataEnd(data, fields[0], fields[1]):
		return "meta"
	}
	return "data"
}

// dataEnd returns the smallest offset of a meta block that the metaindex names.
func (w *tableWatch) dataEnd(data []byte, metaOffset, metaSize uint64) uint64 {
	end := metaOffset
	block := data[metaOffset : metaOffset+metaSize]
	restarts := int(binary.LittleEndian.Uint32(block[len(block)-4:]))
	entries := block[:len(block)-4-4*restarts]
	for len(entries) > 0 {
		var f [3]uint64 // shared, unshared, value length
		for i := range f {
			v, n := binary.Uvarint(entries)
			f[i], entries = v, entries[n:]
		}
		value := entries[f[1] : f[1]+f[2]]
		offset, _ := binary.Uvarint(value)
		end = min(end, offset)
		entries = entries[f[1]+f[2]:]
	}
	return end
}

// during returns how many reads of each part f caused.
func (w *tableWatch) during(f func()) map[string]int {
	w.mu.Lock()
	w.reads = nil
	w.mu.Unlock()
	f()
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := map[string]int{}
	for _, r := range w.reads {
		parts[r.part]++
	}
	return parts
}

func (w *tableWatch) options(policy filter.Policy) *Options {
	o := testOptions(w.Counting)
	o.Filters.Policy = policy
	o.Cache.Size = -1 // every block is read from its file
	return o
}

// filledLevels returns a settled database of n keys, the even numbers, on several levels.
func filledLevels(t *testing.T, o *Options, n int) *DB {
	d := mustOpen(t, o)
	put := func(i int) { require.NoError(t, d.Put(testKey(2*((i*7919)%n)), testValue(i), NoSync)) }
	for i := range n {
		put(i)
	}
	settle(t, d)
	if occupiedLevels(d) == 1 { // the last compaction may have merged all tables; another table then gets its own level
		put(0)
		settle(t, d)
	}
	require.GreaterOrEqual(t, occupiedLevels(d), 2, "the test needs several levels")
	require.NoError(t, d.Close())
	return openTest(t, o)
}

func occupiedLevels(d *DB) int {
	levels := 0
	for _, l := range d.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	return levels
}

func TestATableWhoseFilterDeniesTheKeyIsNotRead(t *testing.T) {
	w := watchTables(t)
	d := filledLevels(t, w.options(never), 4000)
	parts := w.during(func() {
		for i := range 4000 {
			_, err := d.Get(testKey(2 * i))
			require.Equal(t, ErrNotFound, err)
		}
	})
	require.Zero(t, parts["index"], "a filter is consulted before the index")
	require.Zero(t, parts["data"])
	require.Positive(t, parts["end"], "the filters themselves were read")
	m := d.Metrics().Total()
	require.Equal(t, m.FilterChecks, m.FilterNegatives)
	require.GreaterOrEqual(t, m.FilterChecks, uint64(4000))
	require.Zero(t, m.BlocksFromDisk+m.IndexReads)
}

func TestATableWhoseFilterMatchesTheKeyCostsOneBlock(t *testing.T) {
	w := watchTables(t)
	d := filledLevels(t, w.options(always), 4000)
	for i := range 4000 { // so that every index is loaded
		_, err := d.Get(testKey(2 * i))
		require.NoError(t, err)
	}
	for i := 0; i < 4000; i += 37 {
		x, err := d.Explain(testKey(2 * i))
		require.NoError(t, err)
		parts := w.during(func() {
			_, err := d.Get(testKey(2 * i))
			require.NoError(t, err)
		})
		require.Equal(t, map[string]int{"data": len(x.Steps) - 1}, parts, "one data block for each table consulted")
	}
}

func TestALookupInOneTableReadsOneBlock(t *testing.T) {
	w := watchTables(t)
	d := openTest(t, w.options(always))
	fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	_, err := d.Get(testKey(1)) // loads filter and index
	require.NoError(t, err)
	parts := w.during(func() { requireValue(t, d, testKey(50), testValue(50)) })
	require.Equal(t, map[string]int{"data": 1}, parts)
}

func TestBloomFalsePositivesAreTheOnlyBlocksReadForMissingKeys(t *testing.T) {
	w := watchTables(t)
	d := filledLevels(t, w.options(nil), 4000)
	parts := w.during(func() {
		for i := range 4000 {
			_, err := d.Get(testKey(2*i + 1))
			require.Equal(t, ErrNotFound, err)
		}
	})
	m := d.Metrics().Total()
	require.Equal(t, m.FilterFalsePositives, uint64(parts["data"]))
	require.Equal(t, m.FilterFalsePositives, m.BlocksFromDisk)
	require.Equal(t, m.IndexReads, uint64(parts["index"]))
	require.Zero(t, m.FilterTruePositives)
	// The keys differ in their last digit, on which LevelDB's hash collides, so the rate exceeds
	// the 1 % of random keys.
	require.Less(t, float64(m.FilterFalsePositives), 0.2*float64(m.FilterChecks))
	require.Positive(t, m.FilterNegatives)
}

func TestWithoutFiltersEveryTableIsRead(t *testing.T) {
	w := watchTables(t)
	o := w.options(filter.None)
	d := filledLevels(t, o, 4000)
	_, err := d.Get(testKey(1))
	require.Equal(t, ErrNotFound, err)
	m := d.Metrics().Total()
	require.Zero(t, m.FilterChecks)
	require.Positive(t, m.Reads)
	require.Equal(t, m.Reads, m.BlocksFromDisk)
}

func TestFiltersOfUnknownPoliciesAreIgnored(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.Filters.Policy = always
	d := mustOpen(t, o)
	fill(t, d, 0, 1000)
	settle(t, d)
	require.NoError(t, d.Close())
	o.Filters.Policy = nil
	d = openTest(t, o)
	for i := range 1000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	m := d.Metrics()
	require.Zero(t, m.Total().FilterChecks)
	require.Equal(t, m.Tables.Open, m.Tables.WithUnknownFilter)
	require.Positive(t, m.Tables.Open)
}

func TestMetricsAgreeWithTheFileSystem(t *testing.T) {
	w := watchTables(t)
	o := w.options(nil)
	o.Cache.Size = 64 << 10 // some hits, some misses
	d := filledLevels(t, o, 4000)
	before := d.Metrics()
	require.Zero(t, before.Total().Reads)
	parts := w.during(func() {
		for i := range 8000 {
			_, _ = d.Get(testKey(i))
		}
	})
	m := d.Metrics()
	require.EqualValues(t, 8000, m.Lookups.Count)
	require.EqualValues(t, 4000, m.Lookups.Found)
	require.EqualValues(t, parts["data"], m.Total().BlocksFromDisk)
	require.EqualValues(t, parts["index"], m.Total().IndexReads)
	require.EqualValues(t, m.Tables.Open, m.Tables.Openings)
	require.EqualValues(t, m.Tables.Open, parts["end"])
	require.EqualValues(t, parts["end"]+parts["meta"], m.Tables.OpeningReads)
	require.Positive(t, m.Total().BlocksFromCache)
	require.Positive(t, m.Tables.FilterBytes)
	require.Positive(t, m.Tables.IndexBytes)
	require.LessOrEqual(t, m.Cache.Bytes, m.Cache.Capacity)
	require.EqualValues(t, 4000, m.Total().FilterTruePositives)

	// Counters outlive the tables for which they counted.
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Equal(t, m.Total().FilterChecks, d.Metrics().Total().FilterChecks)
	require.Equal(t, m.Total().BlocksFromDisk, d.Metrics().Total().BlocksFromDisk)
}

func TestExplainReportsWhatGetDoes(t *testing.T) {
	w := watchTables(t)
	d := filledLevels(t, w.options(nil), 4000)
	require.NoError(t, d.Delete(testKey(0), NoSync))
	x, err := d.Explain(testKey(0))
	require.NoError(t, err)
	require.True(t, x.Deleted)
	require.Equal(t, "memtable", x.Steps[0].Run)

	var read, saved, wasted int
	for i := 1; i < 2000; i++ {
		parts := w.during(func() {
			x, err := d.Explain(testKey(i))
			require.NoError(t, err)
			require.Equal(t, i%2 == 0, x.Found)
			require.Contains(t, x.String(), fmt.Sprintf(": %d disk read", x.DiskReads))
			read += x.DiskReads
			saved += x.ReadsSaved
			wasted += x.ReadsWasted
		})
		read -= parts["data"] + parts["index"]
		require.Zero(t, read, "key %d", i)
	}
	require.Positive(t, saved)
	require.Positive(t, wasted)
	require.Zero(t, d.Metrics().Lookups.Count, "Explain counts nothing")
}
