package db_test

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
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// These tests use databases as other programs write them, with their filter names, their hash
// functions ("dialects") and their comparators.

// oldDialect makes filters under the old name with ten bits per key, with the hash of goleveldb
// (util.Hash) or that of LevelDB up to 1.17 (util.HashSignedTail). It also reads with that hash
// only, as these programs do, so it loses keys of the other program's filters.
type oldDialect struct {
	hash func(data []byte, seed uint32) uint32
}

var (
	goleveldb  = oldDialect{util.Hash}
	leveldb117 = oldDialect{util.HashSignedTail}
)

func (p oldDialect) Name() string { return "leveldb.BuiltinBloomFilter" }

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

// foreignTable returns a table of the keys, which must ascend, with sequence numbers from firstSeq on.
// It has a filter for each 2 KiB of the file and none of the parts that only SieveDB writes (LevelDB's
// table/filter_block.cc and table/table_builder.cc).
func foreignTable(t testing.TB, p filter.Policy, keys [][]byte, firstSeq uint64) []byte {
	t.Helper()
	const baseLg = 11
	var (
		fsys    = vfs.NewMem()
		filters []byte
		offsets []uint32
		pending [][]byte
	)
	emitUntil := func(index uint64) {
		for uint64(len(offsets)) < index {
			offsets = append(offsets, uint32(len(filters)))
			if len(pending) > 0 {
				filters = p.CreateFilter(filters, pending)
				pending = nil
			}
		}
	}
	table := plainTable(t, fsys, keys, firstSeq)
	f, err := fsys.Open("table")
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{})
	require.NoError(t, err)
	for i, key := range keys {
		offset, err := r.ApproximateOffset(foreignKey(key, firstSeq+uint64(i)))
		require.NoError(t, err)
		emitUntil(offset >> baseLg)
		pending = append(pending, key)
	}
	require.NoError(t, r.Close())
	emitUntil(uint64(len(offsets)) + 1)
	block := filters
	for _, offset := range append(offsets, uint32(len(filters))) {
		block = binary.LittleEndian.AppendUint32(block, offset)
	}
	return withFilterBlock(t, table, p.Name(), append(block, baseLg))
}

func foreignKey(user []byte, seq uint64) []byte {
	return base.AppendInternalKey(nil, user, seq, base.KindSet)
}

// plainTable writes the keys to the file "table", without a filter, and returns its bytes.
func plainTable(t testing.TB, fsys vfs.FS, keys [][]byte, firstSeq uint64) []byte {
	t.Helper()
	f, err := fsys.Create("table")
	require.NoError(t, err)
	w := sstable.NewWriter(f, sstable.WriterOptions{BlockSize: 1024, Compression: sstable.Snappy})
	for i, key := range keys {
		require.NoError(t, w.Add(foreignKey(key, firstSeq+uint64(i)), foreignValue(key)))
	}
	_, err = w.Finish()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return readFile(t, fsys, "table")
}

// foreignValue returns the value of key in a foreign database.
func foreignValue(key []byte) []byte { return fmt.Appendf(nil, "value of %x", key) }

// withFilterBlock replaces a table's footer with a filter block, a metaindex that names only this
// block, and a new footer. The blocks that the old metaindex named remain in the file unused.
func withFilterBlock(t testing.TB, table []byte, policy string, block []byte) []byte {
	t.Helper()
	const footerLen = 48
	body, footer := table[:len(table)-footerLen], table[len(table)-footerLen:]
	handle := func(offset, size int) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(offset)), uint64(size))
	}
	append1 := func(b []byte) (h []byte) {
		h = handle(len(body), len(b))
		body = append(append(body, b...), 0) // not compressed
		body = util.AppendFixed32(body, util.MaskCRC(util.CRC32C(body[len(body)-len(b)-1:])))
		return h
	}
	value, key := append1(block), "filter."+policy
	meta := append([]byte{0, byte(len(key)), byte(len(value))}, key...)
	meta = append(append(meta, value...), 0, 0, 0, 0, 1, 0, 0, 0) // one restart point, at 0
	handles := append1(meta)
	var index [2]uint64
	for i, rest := 0, footer; i < 4; i++ {
		v, n := binary.Uvarint(rest)
		require.Positive(t, n)
		index[i%2], rest = v, rest[n:] // the second handle remains
	}
	handles = append(handles, handle(int(index[0]), int(index[1]))...)
	handles = append(handles, make([]byte, footerLen-8-len(handles))...)
	return append(append(body, handles...), footer[footerLen-8:]...)
}

// foreignDB makes a database of the keys in fsys, in tables on two levels. Their filters are made
// by p, one for each 2 KiB of a table or one for each table.
func foreignDB(t testing.TB, fsys vfs.FS, p filter.Policy, perBlock bool, keys [][]byte) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll("db"))
	set := manifest.New(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: db.BytewiseComparer, MaxManifestSize: 1 << 20, Obsolete: func([]manifest.LevelFile) {}})
	edit := &manifest.Edit{}
	add := func(level int, keys [][]byte, firstSeq uint64) {
		var table []byte
		if perBlock {
			table = foreignTable(t, p, keys, firstSeq)
		} else {
			mem := vfs.NewMem()
			table = withFilterBlock(t, plainTable(t, mem, keys, firstSeq), p.Name(), wholeTable(p, keys))
		}
		num := set.NewFileNum()
		writeFile(t, fsys, filepath.Join("db", base.FileName(base.FileTable, num)), table)
		last := len(keys) - 1
		edit.Added = append(edit.Added, manifest.LevelFile{Level: level, File: manifest.NewFileMeta(num, uint64(len(table)),
			foreignKey(keys[0], firstSeq), foreignKey(keys[last], firstSeq+uint64(last)))})
	}
	var upper, lower [][]byte
	for i, key := range keys {
		if i%4 == 0 {
			upper = append(upper, key)
		} else {
			lower = append(lower, key)
		}
	}
	seq := uint64(1)
	for chunk := range slices.Chunk(lower, len(lower)/3+1) {
		add(2, chunk, seq)
		seq += uint64(len(chunk))
	}
	add(1, upper, seq)
	edit.LastSeq = manifest.Num(seq + uint64(len(upper)))
	log := set.NewFileNum()
	edit.LogNum = manifest.Num(log)
	writeFile(t, fsys, filepath.Join("db", base.FileName(base.FileLog, log)), nil)
	require.NoError(t, set.Begin(edit, nil))
	require.NoError(t, set.Close())
}

// wholeTable returns a filter block with one filter.
func wholeTable(p filter.Policy, keys [][]byte) []byte {
	b := p.CreateFilter(nil, keys)
	n := uint32(len(b))
	return append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 0), n), 40)
}

// binaryKeys returns n random keys of that length, ascending and without duplicates, and n others that
// are not among them.
func binaryKeys(rng *rand.Rand, n, length int) (stored, absent [][]byte) {
	seen := map[string]bool{}
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

// countMissing returns how many of keys are not found. It requires that the others have their values.
func countMissing(t testing.TB, d *db.DB, keys [][]byte) (missing int) {
	t.Helper()
	for _, key := range keys {
		value, err := d.Get(key)
		if err == db.ErrNotFound {
			missing++
			continue
		}
		require.NoError(t, err)
		require.Equal(t, string(foreignValue(key)), string(value))
	}
	return missing
}

func TestNoKeyIsLostUnderTheOldFilterName(t *testing.T) {
	// goleveldb loses 86 % of random seven-byte keys in a directory of LevelDB 1.17. Both call
	// their filters leveldb.BuiltinBloomFilter but hash the last bytes of keys differently, and a
	// filter that is queried with the wrong hash denies stored keys.
	seed := testseed.Statistical(t)
	keys, absent := binaryKeys(rand.New(rand.NewPCG(seed, 3)), 6000, 7)
	type program struct {
		name   string
		policy oldDialect
	}
	programs := []program{{"goleveldb", goleveldb}, {"LevelDB 1.17", leveldb117}}
	for i, writer := range programs {
		for _, perBlock := range []bool{true, false} {
			t.Run(fmt.Sprintf("written by %s/a filter for each 2 KiB %v", writer.name, perBlock), func(t *testing.T) {
				mem := vfs.NewMem()
				foreignDB(t, mem, writer.policy, perBlock, keys)

				other := programs[1-i]
				d := mustOpen(t, &db.Options{FS: mem, Filters: db.FilterOptions{Policy: other.policy}, ReadOnly: true})
				lost := countMissing(t, d, keys)
				require.NoError(t, d.Close())
				t.Logf("read as %s reads: %d of %d keys are lost (%.1f %%)", other.name, lost, len(keys), 100*float64(lost)/float64(len(keys)))
				require.InDelta(t, 0.867, float64(lost)/float64(len(keys)), 0.025)

				// Read-only, so that no compaction replaces the tables.
				d = mustOpen(t, &db.Options{FS: mem, Cache: db.CacheOptions{Size: -1}, ReadOnly: true})
				require.Zero(t, countMissing(t, d, keys))
				m := d.Metrics()
				require.Zero(t, m.Tables.WithUnknownFilter)
				for _, policy := range filterNames(t, d) {
					require.Equal(t, "leveldb.BuiltinBloomFilter", policy)
				}
				before := m.Total()
				require.Equal(t, uint64(len(keys)), before.FilterTruePositives)
				require.Equal(t, len(absent), countMissing(t, d, absent))
				after := d.Metrics().Total()
				falsePositives := after.FilterFalsePositives - before.FilterFalsePositives
				checks := after.FilterChecks - before.FilterChecks
				rate := float64(falsePositives) / float64(checks)
				t.Logf("absent keys: %d checks, %.2f %% of them false positives", checks, 100*rate)
				require.Greater(t, checks, uint64(len(absent))*19/10, "on two levels")
				require.Less(t, rate, 0.035, "twice the rate of a Bloom filter with ten bits per key, and a margin")
				require.Equal(t, falsePositives, after.BlocksFromDisk-before.BlocksFromDisk,
					"only false positives read blocks")

				require.NoError(t, d.Close())

				d = openTest(t, &db.Options{FS: mem})
				require.NoError(t, d.Compact(t.Context(), nil, nil))
				require.Zero(t, countMissing(t, d, keys), "a compaction into SieveDB's tables loses no key")
				for _, policy := range filterNames(t, d) {
					require.Equal(t, "sievedb.CacheLineBloom", policy)
				}
			})
		}
	}
}

// filterNames returns the filter policy of each table.
func filterNames(t testing.TB, d *db.DB) (names []string) {
	t.Helper()
	tables, err := d.Tables()
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		names = append(names, table.FilterPolicy)
	}
	return names
}

func TestFiltersOfTheOldNameAreIgnoredIfOptionsForbidThem(t *testing.T) {
	keys, _ := binaryKeys(rand.New(rand.NewPCG(5, 5)), 300, 7)
	inexact := &db.Comparer{Name: db.BytewiseComparer.Name, Compare: db.BytewiseComparer.Compare, InexactEqual: true}
	for _, c := range []struct {
		name    string
		options db.Options
		unknown bool
	}{
		{"filters are switched off", db.Options{Filters: db.FilterOptions{Policy: filter.None}}, false},
		{"the comparer calls different bytes equal", db.Options{Filters: db.FilterOptions{Policy: always}, Comparer: inexact}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.FS = vfs.NewMem()
			foreignDB(t, o.FS, goleveldb, true, keys)
			o.ReadOnly = true // no compaction replaces the tables
			d := openTest(t, &o)
			require.Zero(t, countMissing(t, d, keys))
			m := d.Metrics()
			require.Zero(t, m.Total().FilterChecks)
			if c.unknown {
				require.Equal(t, map[string]int{"leveldb.BuiltinBloomFilter": m.Tables.Open}, m.Tables.UnknownFilters)
			} else {
				require.Nil(t, m.Tables.UnknownFilters)
			}
		})
	}
	_, err := db.Open("db", &db.Options{
		FS: vfs.NewMem(), Filters: db.FilterOptions{Policy: filter.LegacyBloom}, Comparer: inexact,
	})
	require.ErrorContains(t, err, "filter.None")
}

func TestFiltersAreListedForGoleveldbOnRequest(t *testing.T) {
	keys, absent := binaryKeys(rand.New(rand.NewPCG(6, 6)), 3000, 7)
	for _, listed := range []bool{false, true} {
		t.Run(fmt.Sprint(listed), func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			o.Filters.ForGoleveldb = listed
			d := mustOpen(t, o)
			for _, key := range keys {
				require.NoError(t, d.Put(key, foreignValue(key), db.NoSync))
			}
			settle(t, d)
			for _, policy := range filterNames(t, d) {
				require.Equal(t, "sievedb.CacheLineBloom", policy, "the preferred name")
			}
			require.NoError(t, d.Close())

			// This reads as goleveldb does, with one name and one hash. Goleveldb's comparer is exact;
			// InexactEqual excludes our own policies.
			alone := &db.Comparer{Name: db.BytewiseComparer.Name, Compare: db.BytewiseComparer.Compare, InexactEqual: true}
			d = openTest(t, &db.Options{FS: o.FS, Filters: db.FilterOptions{Policy: goleveldb}, Comparer: alone, ReadOnly: true})
			require.Zero(t, countMissing(t, d, keys))
			require.Equal(t, len(absent), countMissing(t, d, absent))
			m := d.Metrics()
			if !listed {
				require.Equal(t, m.Tables.Open, m.Tables.UnknownFilters["sievedb.CacheLineBloom"],
					"the last name that the tables list")
				require.Zero(t, m.Total().FilterChecks)
				return
			}
			require.Nil(t, m.Tables.UnknownFilters)
			require.Greater(t, m.Total().FilterNegatives, uint64(len(absent))*95/100)

			// The hazard is that LevelDB before 1.18 reads the filter with its own hash.
			d = openTest(t, &db.Options{
				FS: o.FS, Filters: db.FilterOptions{Policy: leveldb117}, Comparer: alone, ReadOnly: true,
			})
			require.Greater(t, countMissing(t, d, keys), len(keys)*8/10)
		})
	}
}

func TestListingForGoleveldbNeedsItsEncoding(t *testing.T) {
	for _, p := range []filter.Policy{filter.None, filter.LegacyBloom, always, filter.NewCacheLineBloomPolicy(10)} {
		err := (&db.Options{Filters: db.FilterOptions{ForGoleveldb: true, Policy: p}}).Validate()
		require.ErrorContains(t, err, "Options.Filters.ForGoleveldb")
		require.ErrorContains(t, err, "filter.NewBloomPolicy")
		require.ErrorContains(t, err, p.Name())
	}
	for _, p := range []filter.Policy{nil, filter.NewBloomPolicy(16), filter.Several(always, filter.NewBloomPolicy(16))} {
		require.NoError(t, (&db.Options{Filters: db.FilterOptions{ForGoleveldb: true, Policy: p}}).Validate())
	}
}

func TestFiltersWrittenUnderTheOldNameServeEveryDialect(t *testing.T) {
	keys, absent := binaryKeys(rand.New(rand.NewPCG(7, 7)), 3000, 7)
	o := testOptions(vfs.NewMem())
	o.Filters.Policy = filter.LegacyBloom
	d := mustOpen(t, o)
	for _, key := range keys {
		require.NoError(t, d.Put(key, foreignValue(key), db.NoSync))
	}
	settle(t, d)
	require.NoError(t, d.Close())
	for _, p := range []filter.Policy{nil, filter.LegacyBloom, goleveldb, leveldb117} {
		d := mustOpen(t, &db.Options{FS: o.FS, Filters: db.FilterOptions{Policy: p}, ReadOnly: true})
		require.Zero(t, countMissing(t, d, keys))
		require.Equal(t, len(absent), countMissing(t, d, absent))
		m := d.Metrics().Total()
		require.Equal(t, m.Reads, m.FilterChecks)
		require.Greater(t, float64(m.FilterNegatives), 0.95*float64(m.FilterChecks-m.FilterTruePositives))
		require.NoError(t, d.Close())
	}
}
