package damage_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
)

// forgedSource is an intact table to be forged.
type forgedSource struct {
	forge             *damage.Forge
	smallest, largest []byte
}

// meta returns the metadata of the table, or of one that was forged from it.
func (s *forgedSource) meta(num uint64, table []byte) *version.FileMeta {
	return version.NewFileMeta(num, uint64(len(table)), s.smallest, s.largest)
}

// sourceOf returns a table of the entries, which are in order.
func sourceOf(t testing.TB, o sstable.WriterOptions, entries []fixture.Entry) forgedSource {
	t.Helper()
	var file bytes.Buffer
	w := sstable.NewWriter(&file, o)
	for _, e := range entries {
		require.NoError(t, w.Add(base.AppendInternalKey(nil, []byte(e.Key), e.Seq, e.Kind), []byte(e.Value)))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	forge, err := damage.NewForge(file.Bytes())
	require.NoError(t, err)
	require.Equal(t, file.Bytes(), forge.Sound())
	return forgedSource{forge, w.Smallest(), bytes.Clone(w.Largest())}
}

const forgedKeys = 60

// forgedSources returns intact tables of testKey(0) to testKey(forgedKeys-1), some of the keys in
// several versions, with filters of each kind.
func forgedSources(t testing.TB) (sources []forgedSource) {
	for i, o := range []sstable.WriterOptions{
		{BlockSize: 200, BlockRestartInterval: 4},
		{BlockSize: 200, Filter: filter.NewDualBloomPolicy(10), RangeFilters: []rangefilter.Policy{fixture.PrefixOfTen}},
		{BlockSize: 300, Filter: filter.FusePolicy{}, Compression: sstable.Snappy},
		{BlockSize: 4096, Filter: filter.NewBloomPolicy(10), FilterAliases: map[string]string{fixture.BloomName: filter.LegacyBloom.Name()}},
		{BlockSize: 1000, BlockRestartInterval: 2, Filter: filter.NewCacheLineBloomPolicy(10)},
	} {
		var entries []fixture.Entry
		for k := range forgedKeys {
			for version := range 1 + k%3 {
				e := fixture.Put(string(fixture.Key(k)), uint64(10-version), strings.Repeat("v", []int{10, 10, 10, 10, 500}[i]))
				if k%7 == 0 && version == 1 {
					e.Kind = base.KindDelete
				}
				entries = append(entries, e)
			}
		}
		sources = append(sources, sourceOf(t, o, entries))
	}
	return sources
}

// separatedSources returns a table of the keys that refers to values, and the value table that has them under forgedID.
func separatedSources(t testing.TB) (keys, values forgedSource) {
	var refs, entries []fixture.Entry
	for k := range forgedKeys {
		key, ref := string(fixture.Key(k)), base.ValueRef{ID: forgedID, Seq: 10, Len: uint64(k)}
		refs = append(refs, fixture.Entry{Key: key, Seq: 10, Kind: base.KindRef, Value: string(ref.Append(nil))})
		entries = append(entries, fixture.Put(key, 10, strings.Repeat("v", k)))
	}
	return sourceOf(t, sstable.WriterOptions{BlockSize: 200, Filter: filter.NewBloomPolicy(10)}, refs),
		sourceOf(t, sstable.WriterOptions{Values: true}, entries)
}

const forgedID = 9

// separate replaces the tables of a database by one that refers to values, and forges both.
func (f *forgery) separate(t testing.TB, rnd *rand.Rand, edit *manifest.Edit, level int) damage.Image {
	keys, values := separatedSources(t)
	tables := map[*forgedSource][]byte{&keys: keys.forge.Sound(), &values: values.forge.Sound()}
	if forged := []*forgedSource{&keys, &values}[rnd.IntN(2)]; rnd.IntN(10) > 0 {
		var changed []string
		tables[forged], changed = forgedTable(forged.forge, rnd)
		f.changed = append(f.changed, changed...)
	}
	meta := values.meta(forgedID, tables[&values])
	meta.SetValueBytes(forgedKeys * (forgedKeys - 1) / 2)
	edit.Added = []version.LevelFile{
		{Level: level, File: keys.meta(5, tables[&keys])},
		{Level: version.ValuesLevel, File: meta},
	}
	edit.Values = []version.ValueDelta{{ID: forgedID, File: forgedID, Live: forgedKeys * (forgedKeys - 1) / 2}}
	return damage.Image{"000005.ldb": tables[&keys], "000009.values": tables[&values]}
}

// forgery is a forged database.
type forgery struct {
	image   damage.Image
	changed []string
	options db.Options
}

// newForgery forges the tables of a database at random, and now and then its MANIFEST and logs.
func newForgery(t testing.TB, sources []forgedSource, rnd *rand.Rand) (f forgery) {
	edit := fixture.EmptyEdit()
	edit.LastSeq = manifest.Num(100)
	more := damage.Image{}
	level := rnd.IntN(3)
	for i := range 1 + rnd.IntN(2) {
		s := sources[rnd.IntN(len(sources))]
		table := s.forge.Sound()
		if i == 0 && rnd.IntN(10) > 1 {
			var changed []string
			table, changed = forgedTable(s.forge, rnd)
			f.changed = append(f.changed, changed...)
		}
		edit.Added = append(edit.Added, version.LevelFile{Level: level + i, File: s.meta(uint64(5+i), table)})
		more[fmt.Sprintf("%06d.ldb", 5+i)] = table
	}
	if rnd.IntN(4) == 0 {
		f.changed = nil
		more = f.separate(t, rnd, edit, level)
	}
	var batches [][]byte
	for i := range rnd.IntN(3) {
		batches = append(batches, fixture.Batch(uint64(101+3*i), "v", "a", string(fixture.Key(1)), "z"))
	}
	if rnd.IntN(10) == 0 {
		batches = forgedBatches(rnd, batches)
		f.changed = append(f.changed, "log")
	}
	more["000003.log"] = fixture.Log(t, batches...)
	records := [][]byte{edit.Encode(nil)}
	if rnd.IntN(10) == 0 {
		records = forgedEdits(rnd, edit)
		f.changed = append(f.changed, "MANIFEST")
	}
	f.image = hostileImage(t, records, more)
	f.options = []db.Options{
		{}, {Filters: db.FilterOptions{Policy: filter.FusePolicy{}}}, {Filters: db.FilterOptions{Budget: 1000}}, {Filters: db.FilterOptions{Policy: filter.None}}, {Cache: db.CacheOptions{Size: -1}},
		{
			Tables: db.TableOptions{Size: 4 << 10}, Compaction: db.CompactionOptions{MaxConcurrent: 3},
			Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{fixture.PrefixOfTen}},
		},
		{Tables: db.TableOptions{SeparateValues: 5}},
	}[rnd.IntN(7)]
	f.options.Memtables.Size = 64 << 10
	return f
}

// forgedTable returns a table with changed numbers and bytes, a changed structure, or both.
func forgedTable(forge *damage.Forge, rnd *rand.Rand) (table []byte, changed []string) {
	way := rnd.IntN(5)
	if way > 0 {
		forge, changed = forge.Restructured(rnd)
	}
	if way > 1 {
		return forge.Sound(), changed
	}
	table, numbers := forge.Build(rnd, forge.Sites())
	return table, append(changed, numbers...)
}

// absurd returns a number that no program writes, or one near n.
func absurd(rnd *rand.Rand, n uint64) uint64 {
	numbers := []uint64{0, 1, 2, n - 1, n, n + 1, 1 << 31, 1<<32 - 1, 1 << 40, 1<<56 - 2, 1<<56 - 1, 1 << 56, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	return numbers[rnd.IntN(len(numbers))]
}

// forgedEdits returns the records of a MANIFEST with absurd numbers and changed bytes.
func forgedEdits(rnd *rand.Rand, edit *manifest.Edit) (records [][]byte) {
	for range 1 + rnd.IntN(3) {
		e := *edit
		number := func(n *manifest.OptionalNum) {
			if rnd.IntN(4) == 0 {
				*n = manifest.OptionalNum{Value: absurd(rnd, n.Value), Set: rnd.IntN(5) > 0}
			}
		}
		number(&e.LogNum)
		number(&e.NextFileNum)
		number(&e.LastSeq)
		number(&e.PrevLogNum)
		if rnd.IntN(3) == 0 {
			e.Deleted = append(e.Deleted, version.DeletedFile{Level: rnd.IntN(8), Num: absurd(rnd, 5)})
		}
		e.Added = nil
		for _, a := range edit.Added {
			if rnd.IntN(3) == 0 {
				a.Level = rnd.IntN(9)
			}
			num, size, smallest, largest := a.File.Num, a.File.Size, a.File.Smallest, a.File.Largest
			switch rnd.IntN(8) {
			case 0:
				num = absurd(rnd, num)
			case 1:
				size = absurd(rnd, size)
			case 2:
				smallest, largest = largest, smallest
			case 3:
				smallest = base.AppendInternalKey(nil, nil, absurd(rnd, 5)%(1<<56), base.KindSet)
			case 4:
				largest = base.AppendInternalKey(nil, bytes.Repeat([]byte{0xff}, rnd.IntN(1<<16)), 0, base.KindDelete)
			}
			bytes, values := a.File.ValueBytes(), a.File.Values
			a.File = version.NewFileMeta(num, size, smallest, largest)
			if values || a.Level == version.ValuesLevel {
				a.File.SetValueBytes(bytes)
			}
			e.Added = append(e.Added, a)
		}
		e.Values = nil
		for _, d := range edit.Values {
			switch rnd.IntN(6) {
			case 0:
				d.ID = absurd(rnd, d.ID)
			case 1:
				d.File = absurd(rnd, d.File)
			case 2:
				d.Live = int64(absurd(rnd, uint64(d.Live)))
			}
			e.Values = append(e.Values, d)
		}
		record := e.Encode(nil)
		if rnd.IntN(3) == 0 {
			record[rnd.IntN(len(record))] ^= 1 << rnd.IntN(8)
		}
		records = append(records, record)
	}
	return records
}

// forgedBatches returns the records of a log with absurd counts, sequence numbers and lengths.
func forgedBatches(rnd *rand.Rand, batches [][]byte) [][]byte {
	for range 1 + rnd.IntN(3) {
		count := uint32(rnd.IntN(5))
		batch := util.AppendFixed64(nil, 101+uint64(rnd.IntN(9)))
		switch rnd.IntN(3) {
		case 0:
			batch = util.AppendFixed64(nil, absurd(rnd, 101))
		case 1:
			count = uint32(absurd(rnd, uint64(count)))
		}
		batch = util.AppendFixed32(batch, count)
		for range rnd.IntN(5) {
			kind := byte(rnd.IntN(2))
			batch = append(batch, kind)
			for range 1 + kind {
				n := rnd.IntN(20)
				batch = append(util.AppendUvarint32(batch, uint32(n)), make([]byte, n)...)
			}
		}
		if rnd.IntN(3) == 0 {
			batch[rnd.IntN(len(batch))] ^= 1 << rnd.IntN(8)
		}
		batches = append(batches, batch[:len(batch)-min(rnd.IntN(10)/8, len(batch))])
	}
	return batches
}
