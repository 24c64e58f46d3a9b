package golden_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// These tests use databases as other programs write them, with their filter names, their hash functions ("dialects")
// and their comparators.

// oldDialect makes filters under the old name with ten bits per key, with the hash of goleveldb (util.Hash) or that of
// LevelDB up to 1.17 (util.HashSignedTail). It also reads with that hash only, as these programs do, so it loses keys
// of the other program's filters.
type oldDialect struct {
	hash func(data []byte, seed uint32) uint32
}

var (
	goleveldb  = oldDialect{util.Hash}
	leveldb117 = oldDialect{util.HashSignedTail}
)

const oldName, ourName = "leveldb.BuiltinBloomFilter", "sievedb.CacheLineBloom"

func (p oldDialect) Name() string { return oldName }

// bitsOf returns the positions of the six bits of a key in an array of that many bytes.
func (p oldDialect) bitsOf(key []byte, arrayBytes int) (positions [6]uint32) {
	h := p.hash(key, 0xbc9f1d34)
	delta := bits.RotateLeft32(h, -17)
	for i := range positions {
		positions[i] = h % uint32(8*arrayBytes)
		h += delta
	}
	return positions
}

func (p oldDialect) CreateFilter(dst []byte, keys [][]byte) []byte {
	array := make([]byte, (max(64, 10*len(keys))+7)/8)
	for _, key := range keys {
		for _, pos := range p.bitsOf(key, len(array)) {
			array[pos/8] |= 1 << (pos % 8)
		}
	}
	return append(append(dst, array...), 6)
}

func (p oldDialect) KeyMayMatch(key, f []byte) bool {
	array := f[:len(f)-1]
	for _, pos := range p.bitsOf(key, len(array)) {
		if array[pos/8]>>(pos%8)&1 == 0 {
			return false
		}
	}
	return true
}

func foreignKey(user []byte, seq uint64) []byte {
	return base.AppendInternalKey(nil, user, seq, base.KindSet)
}

// foreignValue returns the value of key in a foreign database.
func foreignValue(key []byte) []byte { return fmt.Appendf(nil, "value of %x", key) }

// foreignTable returns a table of the keys, which must ascend, with sequence numbers from firstSeq on. It has a filter,
// or one for each 2 KiB of the file, and none of the parts that only SieveDB writes (LevelDB's table/filter_block.cc
// and table/table_builder.cc).
func foreignTable(t testing.TB, p filter.Policy, perBlock bool, keys [][]byte, firstSeq uint64) []byte {
	fsys := vfs.NewMem()
	f, err := fsys.Create("table")
	require.NoError(t, err)
	w := sstable.NewWriter(f, sstable.WriterOptions{BlockSize: 1024, Compression: sstable.Snappy})
	for i, key := range keys {
		require.NoError(t, w.Add(foreignKey(key, firstSeq+uint64(i)), foreignValue(key)))
	}
	_, err = w.Finish()
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{})
	require.NoError(t, err)
	baseLg := byte(40)
	if perBlock {
		baseLg = 11
	}
	var filters []byte
	var offsets []uint32
	var pending [][]byte
	emitUntil := func(index uint64) {
		for uint64(len(offsets)) < index {
			offsets = append(offsets, uint32(len(filters)))
			if len(pending) > 0 {
				filters = p.CreateFilter(filters, pending)
				pending = nil
			}
		}
	}
	for i, key := range keys {
		offset, err := r.ApproximateOffset(foreignKey(key, firstSeq+uint64(i)))
		require.NoError(t, err)
		emitUntil(offset >> baseLg)
		pending = append(pending, key)
	}
	emitUntil(uint64(len(offsets)) + 1)
	table := fixture.ReadFile(t, fsys, "table")
	require.NoError(t, r.Close())
	for _, offset := range append(offsets, uint32(len(filters))) {
		filters = binary.LittleEndian.AppendUint32(filters, offset)
	}
	return withFilterBlock(t, table, p.Name(), append(filters, baseLg))
}

// withFilterBlock replaces a table's footer with a filter block, a metaindex that names only this block, and a new
// footer. The blocks that the old metaindex named remain in the file unused.
func withFilterBlock(t testing.TB, table []byte, policy string, block []byte) []byte {
	body := table[:len(table)-codec.FooterLen]
	foot, err := codec.DecodeFooter(table[len(body):], uint64(len(table)))
	require.NoError(t, err)
	put := func(b []byte) codec.Handle {
		at := len(body)
		body = append(append(body, b...), 0) // not compressed
		body = util.AppendFixed32(body, util.MaskCRC(util.CRC32C(body[at:])))
		return codec.Handle{Offset: uint64(at), Size: uint64(len(b))}
	}
	key, value := "filter."+policy, put(block).Append(nil)
	meta := slices.Concat([]byte{0, byte(len(key)), byte(len(value))}, []byte(key), value, []byte{0, 0, 0, 0, 1, 0, 0, 0})
	return codec.Footer{Metaindex: put(meta), Index: foot.Index}.Append(body)
}

// foreignDB makes a database of the keys, in tables on two levels. Their filters are made by p, one for each 2 KiB of a
// table or one for each table.
func foreignDB(t testing.TB, p filter.Policy, perBlock bool, keys [][]byte) *vfs.Mem {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("db"))
	set := manifest.New(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: db.BytewiseComparer, MaxManifestSize: 1 << 20, Obsolete: func([]version.LevelFile) {}})
	edit := &manifest.Edit{}
	seq := uint64(1)
	add := func(level int, keys [][]byte) {
		table := foreignTable(t, p, perBlock, keys, seq)
		num := set.NewFileNum()
		fixture.WriteFile(t, fsys, filepath.Join("db", base.FileName(base.FileTable, num)), table)
		last := len(keys) - 1
		edit.Added = append(edit.Added, version.LevelFile{Level: level, File: version.NewFileMeta(num, uint64(len(table)),
			foreignKey(keys[0], seq), foreignKey(keys[last], seq+uint64(last)))})
		seq += uint64(len(keys))
	}
	var upper, lower [][]byte
	for i, key := range keys {
		if i%4 == 0 {
			upper = append(upper, key)
		} else {
			lower = append(lower, key)
		}
	}
	for chunk := range slices.Chunk(lower, len(lower)/3+1) {
		add(2, chunk)
	}
	add(1, upper)
	edit.LastSeq = manifest.Num(seq)
	log := set.NewFileNum()
	edit.LogNum = manifest.Num(log)
	fixture.WriteFile(t, fsys, filepath.Join("db", base.FileName(base.FileLog, log)), nil)
	require.NoError(t, set.Begin(edit, nil))
	require.NoError(t, set.Close())
	return fsys
}

// ours makes a database of the keys with SieveDB.
func ours(t *testing.T, filters db.FilterOptions, keys [][]byte) *vfs.Mem {
	fsys := vfs.NewMem()
	o := storetest.Options(fsys)
	o.Filters = filters
	d := storetest.MustOpen(t, o)
	for _, key := range keys {
		require.NoError(t, d.Put(key, foreignValue(key), db.NoSync))
	}
	storetest.Settle(t, d)
	require.NoError(t, d.Close())
	return fsys
}

// reading opens a database to read it, so that no compaction replaces its tables.
func reading(t *testing.T, fsys vfs.FS, p filter.Policy, cmp *db.Comparer) *db.DB {
	o := &db.Options{FS: fsys, Filters: db.FilterOptions{Policy: p}, Comparer: cmp, Cache: db.CacheOptions{Size: -1}, ReadOnly: true}
	return storetest.Open(t, o)
}

// binaryKeys returns n random keys of that length, ascending and without duplicates, and n others that are not among
// them.
func binaryKeys(seed uint64, n, length int) (stored, absent [][]byte) {
	rng, seen := rand.New(rand.NewPCG(seed, seed)), map[string]bool{}
	for len(seen) < 2*n {
		key := make([]byte, length)
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		if len(seen)%2 == 0 {
			stored = append(stored, key)
		} else {
			absent = append(absent, key)
		}
	}
	slices.SortFunc(stored, db.BytewiseComparer.Compare)
	return stored, absent
}

// missing returns how many of keys are not found. It requires that the others have their values.
func missing(t *testing.T, d *db.DB, keys [][]byte) (n int) {
	for _, key := range keys {
		value, err := d.Get(key)
		if err == db.ErrNotFound {
			n++
			continue
		}
		require.NoError(t, err)
		require.Equal(t, string(foreignValue(key)), string(value))
	}
	return n
}

// requireFilters requires that all tables have this filter policy first.
func requireFilters(t *testing.T, d *db.DB, policy string) {
	tables, err := d.Tables()
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		require.Equal(t, policy, table.FilterPolicy)
	}
}

// goleveldb loses 86 % of random seven-byte keys in a directory of LevelDB 1.17. Both call their filters
// leveldb.BuiltinBloomFilter but hash the last bytes of keys differently, and a filter that is queried with the wrong
// hash denies stored keys.
func TestNoKeyIsLostUnderTheOldFilterName(t *testing.T) {
	keys, absent := binaryKeys(testseed.Statistical(t), 6000, 7)
	for writer, other := range map[string][2]oldDialect{"goleveldb": {goleveldb, leveldb117}, "LevelDB 1.17": {leveldb117, goleveldb}} {
		for _, perBlock := range []bool{true, false} {
			t.Run(fmt.Sprintf("written by %s/a filter for each 2 KiB %v", writer, perBlock), func(t *testing.T) {
				mem := foreignDB(t, other[0], perBlock, keys)
				d := reading(t, mem, other[1], nil)
				lost := missing(t, d, keys)
				require.NoError(t, d.Close())
				require.InDelta(t, 0.867, float64(lost)/float64(len(keys)), 0.025, "read as the other program does")

				d = reading(t, mem, nil, nil)
				require.Zero(t, missing(t, d, keys))
				m := d.Metrics()
				require.Zero(t, m.Tables.WithUnknownFilter)
				requireFilters(t, d, oldName)
				before := m.Total()
				require.Equal(t, uint64(len(keys)), before.FilterTruePositives)
				require.Equal(t, len(absent), missing(t, d, absent))
				after := d.Metrics().Total()
				falsePositives := after.FilterFalsePositives - before.FilterFalsePositives
				checks := after.FilterChecks - before.FilterChecks
				require.Greater(t, checks, uint64(len(absent))*19/10, "on two levels")
				require.Less(t, float64(falsePositives)/float64(checks), 0.035,
					"twice the rate of a Bloom filter with ten bits per key, and a margin")
				require.Equal(t, falsePositives, after.BlocksFromDisk-before.BlocksFromDisk, "only false positives read blocks")
				require.NoError(t, d.Close())

				d = storetest.Open(t, &db.Options{FS: mem})
				require.NoError(t, d.Compact(background, nil, nil))
				require.Zero(t, missing(t, d, keys), "a compaction into SieveDB's tables loses no key")
				requireFilters(t, d, ourName)
			})
		}
	}
}

// inexact calls different bytes equal.
var inexact = &db.Comparer{Name: db.BytewiseComparer.Name, Compare: db.BytewiseComparer.Compare, InexactEqual: true}

func TestFiltersOfTheOldNameAreIgnoredIfOptionsForbidThem(t *testing.T) {
	keys, _ := binaryKeys(5, 300, 7)
	mem := foreignDB(t, goleveldb, true, keys)
	for _, cmp := range []*db.Comparer{nil, inexact} {
		policy := filter.None
		if cmp != nil {
			policy = fixture.Always
		}
		d := reading(t, mem, policy, cmp)
		require.Zero(t, missing(t, d, keys))
		m := d.Metrics()
		require.Zero(t, m.Total().FilterChecks)
		if cmp != nil {
			require.Equal(t, map[string]int{oldName: m.Tables.Open}, m.Tables.UnknownFilters)
		} else {
			require.Nil(t, m.Tables.UnknownFilters)
		}
		require.NoError(t, d.Close())
	}
	err := (&db.Options{Filters: db.FilterOptions{Policy: filter.LegacyBloom}, Comparer: inexact}).Validate()
	require.ErrorContains(t, err, "filter.None")
}

func TestFiltersAreListedForGoleveldbOnRequest(t *testing.T) {
	keys, absent := binaryKeys(6, 3000, 7)
	for _, listed := range []bool{false, true} {
		mem := ours(t, db.FilterOptions{ForGoleveldb: listed}, keys)
		d := reading(t, mem, nil, nil)
		requireFilters(t, d, ourName) // the preferred name
		require.NoError(t, d.Close())

		// This reads as goleveldb does, with one name and one hash. Goleveldb's comparer is exact; InexactEqual
		// excludes our own policies.
		d = reading(t, mem, goleveldb, inexact)
		require.Zero(t, missing(t, d, keys))
		require.Equal(t, len(absent), missing(t, d, absent))
		m := d.Metrics()
		require.NoError(t, d.Close())
		if !listed {
			require.Equal(t, m.Tables.Open, m.Tables.UnknownFilters[ourName], "the last name that the tables list")
			require.Zero(t, m.Total().FilterChecks)
			continue
		}
		require.Nil(t, m.Tables.UnknownFilters)
		require.Greater(t, m.Total().FilterNegatives, uint64(len(absent))*95/100)

		// The hazard is that LevelDB before 1.18 reads the filter with its own hash.
		d = reading(t, mem, leveldb117, inexact)
		require.Greater(t, missing(t, d, keys), len(keys)*8/10)
	}
}

func TestFiltersWrittenUnderTheOldNameServeEveryDialect(t *testing.T) {
	keys, absent := binaryKeys(7, 3000, 7)
	mem := ours(t, db.FilterOptions{Policy: filter.LegacyBloom}, keys)
	for _, p := range []filter.Policy{nil, filter.LegacyBloom, goleveldb, leveldb117} {
		d := reading(t, mem, p, nil)
		require.Zero(t, missing(t, d, keys))
		require.Equal(t, len(absent), missing(t, d, absent))
		m := d.Metrics().Total()
		require.Equal(t, m.Reads, m.FilterChecks)
		require.Greater(t, float64(m.FilterNegatives), 0.95*float64(m.FilterChecks-m.FilterTruePositives))
		require.NoError(t, d.Close())
	}
}

// LevelDB's tables have a small filter for each 2 KiB and do not record the number of their keys.
func TestFilterReportsOfBlockRangeFilters(t *testing.T) {
	const n = 20000
	random, _ := binaryKeys(3, n, 16)
	oddTails, _ := binaryKeys(4, n, 7)
	var bigEndian [][]byte
	for i := range n {
		bigEndian = append(bigEndian, binary.BigEndian.AppendUint64(nil, uint64(2*i)))
	}
	for name, c := range map[string]struct {
		policy   filter.Policy
		perBlock bool
		keys     [][]byte
		verdict  report.FilterVerdict
	}{
		"random keys":                               {filter.NewBloomPolicy(10), true, random, report.VerdictGood},
		"random keys, one filter per table":         {filter.NewBloomPolicy(10), false, random, report.VerdictGood},
		"big-endian counters":                       {filter.NewBloomPolicy(10), true, bigEndian, report.VerdictCollisions},
		"big-endian counters, one filter per table": {filter.NewBloomPolicy(10), false, bigEndian, report.VerdictGood},
		"goleveldb's":                               {goleveldb, true, oddTails, report.VerdictGood},
		"LevelDB's before 1.18":                     {leveldb117, true, oddTails, report.VerdictGood},
		"two bits per key":                          {filter.NewBloomPolicy(2), true, random, report.VerdictGood},
		"one bit per key, one filter per table":     {filter.NewBloomPolicy(1), false, random, report.VerdictSaturated},
	} {
		t.Run(name, func(t *testing.T) {
			r := storetest.Filters(t, reading(t, foreignDB(t, c.policy, c.perBlock, c.keys), nil, nil), 4000)
			require.Len(t, r.Tables, 4)
			var keys uint64
			for _, f := range r.Tables {
				require.Equal(t, c.verdict, f.Verdict, f.Detail)
				keys += f.Keys
				require.Zero(t, f.Probes.Denied)
				require.Positive(t, f.BlockBytes)
			}
			if c.verdict != report.VerdictCollisions { // keys of one hash count as one
				require.InEpsilon(t, n, keys, 0.15, "the number of keys is estimated")
			}
			require.Equal(t, keys, r.Levels[0].Keys+r.Levels[1].Keys)
		})
	}
}
