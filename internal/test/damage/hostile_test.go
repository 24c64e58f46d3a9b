package damage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// hostileImage returns a database of these edits, with more files.
func hostileImage(t testing.TB, records [][]byte, more damage.Image) damage.Image {
	im := damage.Image{
		"CURRENT": []byte("MANIFEST-000002\n"), "MANIFEST-000002": fixture.Log(t, records...), "000003.log": {},
	}
	for name, b := range more {
		im[name] = b
	}
	return im
}

// craft returns an intact table of the entries, and its metadata.
func craft(t testing.TB, num uint64, seq uint64, keys ...string) ([]byte, *version.FileMeta) {
	var entries []fixture.Entry
	for _, k := range keys {
		entries = append(entries, fixture.Put(k, seq, "v"))
	}
	s := sourceOf(t, sstable.WriterOptions{Filter: filter.NewBloomPolicy(10)}, entries)
	return s.forge.Sound(), s.meta(num, s.forge.Sound())
}

// openHostile opens the image and reads what it can. The time, the memory and the bytes written for
// that are bounded, and a refused Open leaves the files unchanged.
func openHostile(t testing.TB, im damage.Image, o db.Options) (refused error) {
	t.Helper()
	defer damage.Watch("a hostile database")()
	mem, err := im.FS("db")
	require.NoError(t, err)
	var written func() uint64
	o.FS, written = countWrites(mem)
	if o.Cache.Size = 64 << 10; o.Memtables.Size == 0 {
		o.Memtables.Size = 64 << 10
	}
	before := damage.Allocated()
	opened := false
	err = withForged(&o, func(d *db.DB) error { opened = true; return readForged(d) })
	if !opened {
		after, lerr := damage.Load(mem, "db", func(name string) bool { return name == base.LockName })
		require.NoError(t, lerr)
		require.True(t, maps.EqualFunc(im, after, bytes.Equal), "a refused Open changes nothing: %v", after.Names())
	}
	require.LessOrEqual(t, damage.Allocated()-before, damage.MemoryBound(im.Size()))
	require.LessOrEqual(t, written(), damage.WriteBound(im.Size()))
	top, lerr := mem.List(".")
	require.NoError(t, lerr)
	require.Equal(t, []string{"db"}, top, "nothing is written outside the directory")
	return err
}

//make:portable
func TestHostileManifestsAreRefused(t *testing.T) {
	table, meta := craft(t, 5, 4, "a", "m")
	other, overlapping := craft(t, 6, 3, "b", "z")
	tables := damage.Image{"000005.ldb": table, "000006.ldb": other}
	edit := func(change func(*manifest.Edit)) [][]byte {
		e := fixture.EmptyEdit()
		e.Added = []version.LevelFile{{Level: 1, File: meta}}
		change(e)
		return [][]byte{e.Encode(nil)}
	}
	good := edit(func(*manifest.Edit) {})
	require.NoError(t, openHostile(t, hostileImage(t, good, tables), db.Options{}))
	huge := util.AppendUvarint32(append(bytes.Clone(good[0]), 7, 1, 9, 9), math.MaxUint32)
	for name, records := range map[string][][]byte{
		"no record at all":             {},
		"an empty record":              {{}},
		"a key of 4 GiB":               {append(huge, "abc"...)},
		"level 7":                      {append(bytes.Clone(good[0]), 6, 7, 1)},
		"level 2^32-1":                 {util.AppendUvarint32(append(bytes.Clone(good[0]), 6), math.MaxUint32)},
		"an unknown tag":               {append(bytes.Clone(good[0]), 8, 1)},
		"the tag 2^32-1":               {util.AppendUvarint32(bytes.Clone(good[0]), math.MaxUint32)},
		"the same table on two levels": edit(func(e *manifest.Edit) { e.Added = append(e.Added, version.LevelFile{Level: 2, File: meta}) }),
		"two tables that overlap":      edit(func(e *manifest.Edit) { e.Added = append(e.Added, version.LevelFile{Level: 1, File: overlapping}) }),
		"a table that begins after its end": edit(func(e *manifest.Edit) {
			e.Added[0].File = version.NewFileMeta(5, meta.Size, meta.Largest, meta.Smallest)
		}),
		"a table of 2^64-1 bytes": edit(func(e *manifest.Edit) {
			e.Added[0].File = version.NewFileMeta(5, math.MaxUint64, meta.Smallest, meta.Largest)
		}),
		"a table number of 2^63-1": edit(func(e *manifest.Edit) {
			e.Added[0].File = version.NewFileMeta(math.MaxInt64, 1, meta.Smallest, meta.Largest)
		}),
		"a missing table": edit(func(e *manifest.Edit) { e.Added[0].File = version.NewFileMeta(7, 1, meta.Smallest, meta.Largest) }),
		"a table of other keys": edit(func(e *manifest.Edit) {
			e.Added[0].File = version.NewFileMeta(5, meta.Size, meta.Smallest, meta.Smallest)
		}),
		"a next number of 2^62+1":         edit(func(e *manifest.Edit) { e.NextFileNum = manifest.Num(base.MaxFileNum + 1) }),
		"a next number of 2^63-1":         edit(func(e *manifest.Edit) { e.NextFileNum = manifest.Num(math.MaxInt64) }),
		"a next number of 2^64-1":         edit(func(e *manifest.Edit) { e.NextFileNum = manifest.Num(math.MaxUint64) }),
		"a last sequence of 2^56":         edit(func(e *manifest.Edit) { e.LastSeq = manifest.Num(base.MaxSeq + 1) }),
		"a comparator name of 1025 bytes": edit(func(e *manifest.Edit) { e.Comparer = strings.Repeat("c", 1025) }),
		"a comparator name of 1 MiB":      edit(func(e *manifest.Edit) { e.Comparer = strings.Repeat("c", 1<<20) }),
		"no next number":                  edit(func(e *manifest.Edit) { e.NextFileNum = manifest.OptionalNum{} }),
		"no log number":                   edit(func(e *manifest.Edit) { e.LogNum = manifest.OptionalNum{} }),
	} {
		t.Run(name, func(t *testing.T) {
			want := db.ErrCorruption
			if strings.Contains(name, " tag") {
				want = db.ErrNewer
			}
			require.ErrorIs(t, openHostile(t, hostileImage(t, records, tables), db.Options{}), want)
			require.ErrorIs(t, openHostile(t, hostileImage(t, records, tables), db.Options{ReadOnly: true}), want)
		})
	}
	t.Run("another comparator is named", func(t *testing.T) {
		err := openHostile(t, hostileImage(t, edit(func(e *manifest.Edit) { e.Comparer = "idb_cmp1" }), tables), db.Options{})
		require.ErrorContains(t, err, `"idb_cmp1"`)
	})
}

// A MANIFEST has very many small edits, or very many files that do not exist. Decoded, they use more
// memory than their bytes.
//
//make:portable
func TestLargeHostileManifestsStayWithinTheMemoryBound(t *testing.T) {
	e := fixture.EmptyEdit()
	records := [][]byte{e.Encode(nil)}
	for i := range 100_000 {
		records = append(records, (&manifest.Edit{Deleted: []version.DeletedFile{{Level: i % 7, Num: uint64(i)}}}).Encode(nil))
	}
	require.NoError(t, openHostile(t, hostileImage(t, records, nil), db.Options{ReadOnly: true}))

	e = fixture.EmptyEdit()
	key := base.AppendInternalKey(nil, nil, 0, base.KindSet)
	for i := range 50_000 {
		e.Added = append(e.Added, version.LevelFile{Level: 0, File: version.NewFileMeta(uint64(i+10), 1, key, key)})
	}
	require.ErrorIs(t, openHostile(t, hostileImage(t, [][]byte{e.Encode(nil)}, nil), db.Options{}), db.ErrCorruption)
}

//make:portable
func TestHostileCurrentsAreRefused(t *testing.T) {
	records := [][]byte{fixture.EmptyEdit().Encode(nil)}
	for _, current := range []string{
		"", "\n", "MANIFEST-000002", "MANIFEST-000002\r\n", "MANIFEST-000002\n\n", "MANIFEST-000002\n\x00", " MANIFEST-000002\n", "MANIFEST-000002 \n",
		"MANIFEST-2\n", "MANIFEST-0000002\n", "MANIFEST-+00002\n", "MANIFEST--00002\n", "manifest-000002\n", "MANIFEST-00000x\n", "MANIFEST-000009\n",
		"MANIFEST-9223372036854775807\n", "MANIFEST-18446744073709551618\n", "./MANIFEST-000002\n", "../db/MANIFEST-000002\n", "/db/MANIFEST-000002\n",
		"000003.log\n", "CURRENT\n", "MANIFEST-\n", strings.Repeat("M", 1<<20) + "\n", "MANIFEST-000002\nMANIFEST-000002\n", "\xef\xbb\xbfMANIFEST-000002\n",
	} {
		im := hostileImage(t, records, damage.Image{"CURRENT": []byte(current)})
		err := openHostile(t, im, db.Options{})
		require.ErrorIs(t, err, db.ErrCorruption, "%q", current)
		require.ErrorContains(t, err, "CURRENT")
	}
	// A number with other leading zeros names another file, which exists here.
	im := hostileImage(t, records, damage.Image{"CURRENT": []byte("MANIFEST-2\n"), "MANIFEST-2": fixture.Log(t, records...)})
	require.ErrorIs(t, openHostile(t, im, db.Options{}), db.ErrCorruption)
}

//make:portable
func TestHostileLogsAreRefused(t *testing.T) {
	edit := [][]byte{fixture.EmptyEdit().Encode(nil)}
	header := func(seq uint64, count uint32) []byte {
		b := binary.LittleEndian.AppendUint64(nil, seq)
		return binary.LittleEndian.AppendUint32(b, count)
	}
	for name, record := range map[string][]byte{
		"an empty record":              {},
		"eleven bytes":                 make([]byte, 11),
		"2^32-1 entries in two bytes":  append(header(6, math.MaxUint32), 0, 0),
		"a sequence of 2^56":           append(header(base.MaxSeq+1, 1), 0, 0),
		"a sequence that passes 2^56":  append(header(base.MaxSeq, 2), 0, 0, 0, 0),
		"a sequence of 2^64-1":         append(header(math.MaxUint64, 1), 0, 0),
		"a key of 4 GiB":               append(header(6, 1), 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"a length of six bytes":        append(header(6, 1), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"a value beyond the end":       append(header(6, 1), 1, 1, 'k', 9, 'v'),
		"an unknown kind":              append(header(6, 1), 77, 1, 'k'),
		"more entries than it counts":  append(header(6, 1), 0, 1, 'k', 0, 1, 'l'),
		"fewer entries than it counts": append(header(6, 3), 0, 1, 'k', 0, 1, 'l'),
	} {
		t.Run(name, func(t *testing.T) {
			im := hostileImage(t, edit, damage.Image{"000003.log": fixture.Log(t, fixture.Batch(6, "v", "a"), record)})
			for _, readOnly := range []bool{false, true} {
				err := openHostile(t, im, db.Options{ReadOnly: readOnly})
				require.ErrorIs(t, err, db.ErrCorruption)
				require.ErrorContains(t, err, "000003.log")
			}
		})
	}
	t.Run("an unknown kind is of a newer version", func(t *testing.T) {
		record := append(header(6, 1), 7, 1, 'k')
		err := openHostile(t, hostileImage(t, edit, damage.Image{"000003.log": fixture.Log(t, fixture.Batch(6, "v", "a"), record)}), db.Options{})
		require.ErrorIs(t, err, db.ErrNewer)
		require.ErrorContains(t, err, "000003.log")
	})
	// Chunks that begin a record and never end it are a torn end of the log.
	chunk := append(make([]byte, 7), make([]byte, 32<<10-7)...)
	binary.LittleEndian.PutUint16(chunk[4:], 32<<10-7)
	var log []byte
	for kind := byte(2); len(log) < 8<<20; kind = 3 {
		chunk[6] = kind
		binary.LittleEndian.PutUint32(chunk, util.MaskCRC(util.CRC32C(chunk[6:])))
		log = append(log, chunk...)
	}
	require.NoError(t, openHostile(t, hostileImage(t, edit, damage.Image{"000003.log": log}), db.Options{}))
}

// The bug: replay reserved memory for all of a batch at the largest possible size of each entry. With
// tiny entries that was 70 times the log's bytes.
func TestALogOfTinyEntriesStaysWithinTheMemoryBound(t *testing.T) {
	record := binary.LittleEndian.AppendUint64(nil, 6)
	n := 800_000
	if race.Enabled { // the race detector pads allocations
		n = 200_000
	}
	record = binary.LittleEndian.AppendUint32(record, uint32(n))
	record = append(record, make([]byte, 2*n)...) // deletions of the empty key
	im := hostileImage(t, [][]byte{fixture.EmptyEdit().Encode(nil)}, damage.Image{"000003.log": fixture.Log(t, record)})
	for _, readOnly := range []bool{false, true} {
		require.NoError(t, openHostile(t, im, db.Options{ReadOnly: readOnly, Memtables: db.MemtableOptions{Size: 4 << 20}}))
	}
}

// The bug: a read-only open kept every entry of the logs, some 28 bytes for two or three bytes of log.
// The bound here is eight times the logs' size and 12 MiB, instead of 64 MiB.
func TestAReadOnlyOpenOfTinyEntriesStaysWithinTheMemoryBound(t *testing.T) {
	n := 1_500_000
	if race.Sampled() {
		n = 100_000
	}
	for keyLen, name := range []string{"the empty key", "keys of one byte", "keys of two bytes", "keys of three bytes"} {
		t.Run(name, func(t *testing.T) {
			var records [][]byte
			for i := 0; i < n; {
				record := binary.LittleEndian.AppendUint64(nil, uint64(6+i))
				record = binary.LittleEndian.AppendUint32(record, 10_000)
				for range 10_000 {
					record = append(record, 0, byte(keyLen), byte(i*7919), byte(i>>8), byte(i>>16))[:len(record)+2+keyLen]
					i++
				}
				records = append(records, record)
			}
			im := hostileImage(t, [][]byte{fixture.EmptyEdit().Encode(nil)}, damage.Image{"000003.log": fixture.Log(t, records...)})
			for _, buffer := range []int{4 << 10, 4 << 20} {
				mem, err := im.FS("db")
				require.NoError(t, err)
				before := damage.Allocated()
				d, err := db.Open("db", &db.Options{
					FS: mem, ReadOnly: true, Memtables: db.MemtableOptions{Size: buffer}, Cache: db.CacheOptions{Size: -1},
				})
				took := damage.Allocated() - before
				require.NoError(t, err)
				t.Logf("%d bytes for %d of log", took, im.Size())
				require.LessOrEqual(t, took, damage.MemoryBound(im.Size())-52<<20)
				require.EqualValues(t, n, d.OpenReport().Logs[0].Entries)
				require.NoError(t, d.Close())
			}
		})
	}
}

// The bug: the write with the very last sequence number panicked after it was in the log, and the
// database could not be opened again, because that number was treated as one too many. Near the
// end, the store must open, read, and refuse a write that does not fit before it writes any of it.
//
//make:portable
func TestSequenceNumbersRunOutWithAnError(t *testing.T) {
	e := fixture.EmptyEdit()
	e.LastSeq = manifest.Num(base.MaxSeq - 2)
	mem, err := hostileImage(t, [][]byte{e.Encode(nil)}, nil).FS("db")
	require.NoError(t, err)
	for range 2 {
		d := storetest.MustOpen(t, &db.Options{FS: mem})
		var b db.Batch
		for i := range 4 {
			b.Put(fixture.Key(i), nil)
		}
		require.ErrorContains(t, d.Apply(&b, nil), "out of sequence numbers")
		storetest.RequireAbsent(t, d, fixture.Key(0))
		require.NoError(t, d.Flush())
		require.NoError(t, d.Close())
	}
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	require.NoError(t, d.Put([]byte("k"), []byte("1"), nil))
	require.NoError(t, d.Put([]byte("k"), []byte("2"), nil))
	require.ErrorContains(t, d.Put([]byte("k"), []byte("3"), nil), "out of sequence numbers")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.RequireValue(t, d, []byte("k"), []byte("2"))
	require.NoError(t, d.Close())
	d = storetest.Open(t, &db.Options{FS: mem})
	storetest.RequireValue(t, d, []byte("k"), []byte("2"))
}

// A table or a log has sequence numbers near the end, and the MANIFEST does not say so.
//
//make:portable
func TestSequenceNumbersOfTablesAndLogsCount(t *testing.T) {
	table, meta := craft(t, 5, base.MaxSeq, "a")
	e := fixture.EmptyEdit()
	e.Added = []version.LevelFile{{Level: 0, File: meta}}
	mem, err := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": table}).FS("db")
	require.NoError(t, err)
	d := storetest.Open(t, &db.Options{FS: mem})
	storetest.RequireValue(t, d, []byte("a"), []byte("v"))
	require.ErrorContains(t, d.Put([]byte("a"), nil, nil), "out of sequence numbers")

	im := hostileImage(t, [][]byte{fixture.EmptyEdit().Encode(nil)}, damage.Image{"000003.log": fixture.Log(t, fixture.Batch(base.MaxSeq-1, "v", "b"))})
	mem, err = im.FS("db")
	require.NoError(t, err)
	d = storetest.Open(t, &db.Options{FS: mem})
	storetest.RequireValue(t, d, []byte("b"), []byte("v"))
	require.NoError(t, d.Put([]byte("b"), []byte("last"), nil))
	require.ErrorContains(t, d.Put([]byte("b"), nil, nil), "out of sequence numbers")
}

// Files with names or numbers that the store does not use, and directories with names of its files, are left alone.
func TestStrangeDirectoryEntriesAreLeftAlone(t *testing.T) {
	strange := damage.Image{
		"7.log": []byte("x"), "MANIFEST-3": nil, "0000005.ldb": []byte("x"), "9223372036854775807.ldb": []byte("x"), "4611686018427387905.log": []byte("x"),
		"99999999999999999999.sst": []byte("x"), "000004.ldb.bak": []byte("x"), "CURRENT.old": []byte("x"), "notes": []byte("x"),
	}
	im := hostileImage(t, [][]byte{fixture.EmptyEdit().Encode(nil)}, damage.Image{"000003.log": fixture.Log(t, fixture.Batch(6, "v", "a"))})
	for name, b := range strange {
		im[name] = append([]byte{}, b...)
	}
	mem, err := im.FS("db")
	require.NoError(t, err)
	for _, dir := range []string{"000001.ldb", "000002.log", "MANIFEST-000001", "000001.dbtmp", "LOG", "sub"} {
		require.NoError(t, mem.MkdirAll(filepath.Join("db", dir, "kept")))
	}
	for range 3 {
		d := storetest.MustOpen(t, &db.Options{FS: mem})
		storetest.RequireValue(t, d, []byte("a"), []byte("v"))
		require.NoError(t, d.Put([]byte("b"), nil, nil))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		require.NoError(t, d.Close())
	}
	names, err := mem.List("db")
	require.NoError(t, err)
	for name := range strange {
		require.Contains(t, names, name)
	}
	for _, dir := range []string{"000001.ldb", "000002.log", "MANIFEST-000001", "000001.dbtmp", "LOG", "sub"} {
		_, err := mem.Stat(filepath.Join("db", dir, "kept"))
		require.NoError(t, err)
	}
	for _, name := range fixture.Names(t, mem, base.FileLog) {
		_, num, _ := base.ParseFileName(name)
		require.Less(t, num, uint64(1000), "numbers of other files do not count")
	}
}

func TestDirectoriesUnderTheNamesOfNeededFilesAreRefused(t *testing.T) {
	im := hostileImage(t, [][]byte{fixture.EmptyEdit().Encode(nil)}, nil)
	for _, name := range []string{"CURRENT", "MANIFEST-000002", "LOCK", "000003.log"} {
		mem, err := im.With(name, nil).FS("db")
		require.NoError(t, err)
		require.NoError(t, mem.MkdirAll(filepath.Join("db", name)))
		d, err := db.Open("db", &db.Options{FS: mem})
		if name == "000003.log" && err == nil { // reported as a missing log
			require.Equal(t, name, d.OpenReport().MissingLog)
			require.NoError(t, d.Close())
			continue
		}
		require.Error(t, err, name)
		info, err := mem.Stat(filepath.Join("db", name))
		require.NoError(t, err)
		require.True(t, info.IsDir())
	}
}

// A MANIFEST names malformed tables with matching checksums. Open, reads and compactions return
// data or an ErrCorruption that names a file. The bug: after a background compaction had set such
// tables aside, Compact's error was not such an ErrCorruption.
func TestMalformedTablesInADatabase(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	var keys []string
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("key%03d", i))
	}
	table, meta := craft(t, 5, 4, keys...)
	second, secondMeta := craft(t, 6, 3, keys...)
	forge, err := damage.NewForge(table)
	require.NoError(t, err)
	sites := forge.Sites()
	counts := map[string]int{}
	tables := 1500
	if race.Sampled() {
		tables = 150
	}
	for range tables {
		forged, changed := forge.Build(rnd, sites)
		e := fixture.EmptyEdit()
		e.Added = []version.LevelFile{
			{Level: 1, File: version.NewFileMeta(5, uint64(len(forged)), meta.Smallest, meta.Largest)},
			{Level: 2, File: secondMeta},
		}
		im := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": forged, "000006.ldb": second})
		mem, err := im.FS("db")
		require.NoError(t, err)
		stop := damage.Watch(fmt.Sprintf("a database with a forged table: %q", changed))
		before := damage.Allocated()
		fsys, written := countWrites(mem)
		d := storetest.MustOpen(t, &db.Options{
			FS: fsys, Memtables: db.MemtableOptions{Size: 16 << 10}, Cache: db.CacheOptions{Size: 64 << 10},
		})
		read := readForged(d)
		if read != nil {
			require.True(t, base.IsUnreadable(read), "%q: %v", changed, read)
		}
		compacted := d.Compact(t.Context(), nil, nil)
		if compacted != nil {
			require.True(t, base.IsUnreadable(compacted), "%q: %v", changed, compacted)
			require.ErrorContains(t, compacted, "000005.ldb", "%q", changed)
		}
		require.NoError(t, d.Close())
		stop()
		require.LessOrEqual(t, damage.Allocated()-before, damage.MemoryBound(im.Size()), "%q", changed)
		require.LessOrEqual(t, written(), damage.WriteBound(im.Size()), "%q", changed)
		counts[fmt.Sprintf("read refused: %v, compaction refused: %v", read != nil, compacted != nil)]++
		if compacted == nil { // accepted tables must be readable
			d := storetest.MustOpen(t, &db.Options{FS: mem})
			require.NoError(t, readForged(d), "%q", changed)
			require.NoError(t, d.Close())
		}
	}
	t.Logf("%d databases: %v", tables, counts)
}

func TestAManifestAboveTheReadLimitIsRefused(t *testing.T) {
	o := db.Options{FS: vfs.NewMem(), Limits: db.LimitOptions{ManifestSize: 4 << 10, ManifestRead: 8 << 10}}
	d := storetest.MustOpen(t, &o)
	require.NoError(t, d.Put([]byte("k"), []byte("v"), nil))
	require.NoError(t, d.Close())
	im, err := damage.Load(o.FS, "db", func(name string) bool { return name == base.LockName })
	require.NoError(t, err)
	name := strings.TrimSpace(string(im["CURRENT"]))
	im[name] = append(im[name], make([]byte, 8<<10)...) // zeros at the end are unused space, not damage
	for _, readOnly := range []bool{false, true} {
		refused := openHostile(t, im, db.Options{Limits: db.LimitOptions{ManifestSize: 4 << 10, ManifestRead: 8 << 10}, ReadOnly: readOnly})
		require.ErrorContains(t, refused, "Options.Limits.ManifestRead")
		require.ErrorContains(t, refused, name)
	}
	o.FS, err = im.FS("db")
	require.NoError(t, err)
	require.ErrorContains(t, db.Repair("db", &o), "Options.Limits.ManifestRead")
	require.NoError(t, openHostile(t, im, db.Options{}))
}
