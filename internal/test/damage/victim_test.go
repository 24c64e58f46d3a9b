package damage_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// damageShape describes a small database to be damaged.
type damageShape struct {
	name        string
	filter      filter.Policy
	compression db.Compression
	valueLen    int
	logRecords  int
	separate    int // Options.Tables.SeparateValues
}

var (
	damageDefault   = damageShape{name: "bloom, raw blocks", compression: db.NoCompression, valueLen: 20, logRecords: 6}
	damageSeparated = damageShape{name: "values apart", compression: db.NoCompression, valueLen: 20, logRecords: 6, separate: 20}
)

// shapesToDamage lists the shapes of this run.
func shapesToDamage() []damageShape {
	if !*damageShapes || testing.Short() {
		return []damageShape{damageDefault, damageSeparated}
	}
	return []damageShape{
		damageDefault, damageSeparated,
		{"bloom, Snappy", nil, db.SnappyCompression, 60, 6, 0},
		{"no filter, Zstandard", filter.None, db.ZstdCompression, 60, 6, 60},
		{"the old filter name, raw blocks", filter.LegacyBloom, db.NoCompression, 20, 6, 0},
		{"a log of several blocks", nil, db.NoCompression, 1500, 50, 0},
	}
}

func (s damageShape) options(fsys vfs.FS, readOnly bool) *db.Options {
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10},
		Tables: db.TableOptions{BlockSize: 128, RestartInterval: 4, Compression: s.compression, SeparateValues: s.separate}, Cache: db.CacheOptions{Size: 64 << 10},
		Filters: db.FilterOptions{Policy: s.filter}, ReadOnly: readOnly,
		Compaction: db.CompactionOptions{L0Trigger: 100, L0Slowdown: 101},
	}
}

// victim is a small database and its entries. It may have been closed.
type victim struct {
	shape  damageShape
	image  damage.Image
	closed bool
	older  damage.Image // the files before the log's records were written
	log    string       // the name of its one log with records
	// states[i] are the entries of the database without the last i records of the log.
	states [][]damage.Pair
	absent [][]byte
	tables []string
}

// newVictim makes a database that is not closed. It has four tables, three of them on level 0 and of
// one size, and a log with puts and deletions.
func newVictim(t testing.TB, shape damageShape) *victim { return makeVictim(t, shape, false) }

// newVictims returns a victim that was not closed and one that was.
func newVictims(t testing.TB, shape damageShape) map[string]*victim {
	return map[string]*victim{"not closed": makeVictim(t, shape, false), "closed": makeVictim(t, shape, true)}
}

func makeVictim(t testing.TB, shape damageShape, closed bool) *victim {
	v := &victim{shape: shape, closed: closed}
	mem := vfs.NewMem()
	// Each byte of the files is changed in turn, so the log has none that is only reserved; package wal and replay have
	// tests of those.
	o := shape.options(fixture.PlainLogs(mem), false)
	o.Memtables.Size = 256 << 10
	d := storetest.Open(t, o)
	model := map[string]string{}
	put := func(key, value string) {
		require.NoError(t, d.Put([]byte(key), []byte(value), db.Sync))
		model[key] = value
	}
	value := func(i int) string { return fmt.Sprintf("%0*d", shape.valueLen, i*7919) }
	for i := range 12 {
		put(fmt.Sprintf("key%02d", 3*i), value(i))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	for table := range 3 {
		for i := range 5 {
			put(fmt.Sprintf("key%02d", 10*table+2*i), value(100*table+i))
		}
		require.NoError(t, d.Flush())
	}
	fixture.Eventually(t, func() bool { // wait until the old logs are removed
		names, err := mem.List("db")
		require.NoError(t, err)
		return len(names) == 8+len(v.valueTables(t, mem)) // four tables, log, MANIFEST, CURRENT, LOCK
	})
	v.older = v.load(t, mem)
	for i := range shape.logRecords {
		v.states = append(v.states, pairsOf(model))
		if i%3 == 1 {
			require.NoError(t, d.Delete(fmt.Appendf(nil, "key%02d", 4*i%36), db.Sync))
			delete(model, fmt.Sprintf("key%02d", 4*i%36))
			continue
		}
		put(fmt.Sprintf("key%02d", 5*i%40), value(1000+i))
	}
	v.states = append(v.states, pairsOf(model))
	slices.Reverse(v.states)
	files := 7 + len(v.valueTables(t, mem)) // tables, log, MANIFEST, CURRENT
	require.Equal(t, shape.separate > 0, files > 7)
	if closed {
		require.NoError(t, d.Close())
		files++ // CLOSED
	}
	v.image = v.load(t, mem)
	for i := 0; i < 50; i += 4 {
		v.absent = append(v.absent, fmt.Appendf(nil, "key%02d!", i))
	}
	for _, name := range v.image.Names() {
		switch kind, _, _ := base.ParseFileName(name); kind {
		case base.FileTable:
			v.tables = append(v.tables, name)
		case base.FileLog:
			v.log = name
		}
	}
	require.Len(t, v.tables, 4)
	require.Len(t, v.image, files, "%v", v.image.Names())
	return v
}

// valueTables returns the names of the value tables.
func (v *victim) valueTables(t testing.TB, fsys vfs.FS) []string {
	names, err := fsys.List("db")
	require.NoError(t, err)
	return slices.DeleteFunc(names, func(name string) bool { return fixture.KindName(name) != "value table" })
}

func (v *victim) load(t testing.TB, fsys vfs.FS) damage.Image {
	im, err := damage.Load(fixture.CopyFS(t, fsys), "db", func(name string) bool { return name == base.LockName })
	require.NoError(t, err)
	return im
}

func pairsOf(model map[string]string) (pairs []damage.Pair) {
	for _, key := range slices.Sorted(maps.Keys(model)) {
		pairs = append(pairs, damage.Pair{Key: []byte(key), Value: []byte(model[key])})
	}
	return pairs
}

// storeUnderTest adapts a DB to the damage driver.
type storeUnderTest struct{ *db.DB }

func (s storeUnderTest) NewIterator() (damage.Iterator, error) {
	it, err := s.DB.NewIterator(nil)
	if err != nil {
		return nil, err
	}
	return it, nil
}

// driver returns a driver for the victim, whose database may show any of the states.
func (v *victim) driver(readOnly bool, states [][]damage.Pair) *damage.Driver {
	return &damage.Driver{
		Dir: "db", States: states, Absent: v.absent,
		Open: func(fsys vfs.FS) (damage.Store, error) {
			d, err := db.Open("db", v.shape.options(fsys, readOnly))
			if err != nil {
				return nil, err
			}
			return storeUnderTest{d}, nil
		},
	}
}

// wholeRecords returns how many of the log's first records are unchanged in damaged, and whether it
// has unchanged records after the first changed one.
func (v *victim) wholeRecords(damaged []byte) (n int, more bool) {
	whole, start := v.image[v.log], 0
	broken := false
	for _, end := range fixture.RecordEnds(whole) {
		same := end <= len(damaged) && bytes.Equal(whole[start:end], damaged[start:end])
		switch {
		case same && !broken:
			n++
		case same:
			more = true
		default:
			broken = true
		}
		start = end
	}
	return n, more
}

// tallies counts outcomes by kind of file.
type tallies map[string]*damage.Tally

func (ts tallies) add(kind string, c damage.Class) {
	if ts[kind] == nil {
		ts[kind] = &damage.Tally{}
	}
	ts[kind].Add(c)
}

func (ts tallies) log(t *testing.T, what string) {
	for _, kind := range slices.Sorted(maps.Keys(ts)) {
		t.Logf("%-14s %-28s %s", what, kind, ts[kind])
	}
}

// check opens one damaged image and fails the test if the outcome is not allowed. Only a log may lose
// records, by the rule of its tail: those from the damage on, and only if a crash could have caused the
// damage. If CLOSED vouches for the log, there was no crash.
func (v *victim) check(t *testing.T, h damage.Harm, readOnly, asCrash bool) damage.Outcome {
	t.Helper()
	states := v.states[:1]
	if !bytes.Equal(h.Image[v.log], v.image[v.log]) && !v.vouchedFor(h.Image) {
		n, more := v.wholeRecords(h.Image[v.log])
		if !more || asCrash {
			states = [][]damage.Pair{v.states[0], v.states[len(v.states)-1-n]}
		}
	}
	out := v.driver(readOnly, states).Run(h.Image)
	if out.Class != damage.Correct && out.Class != damage.Refused {
		require.Fail(t, "this outcome is not allowed", "%s: %s: %s %v", h.What, out.Class, out.Detail, out.Err)
	}
	return out
}

// vouchedFor reports whether the files that vouch for the log are undamaged.
func (v *victim) vouchedFor(im damage.Image) bool {
	if !v.closed {
		return false
	}
	for name, b := range v.image {
		if kind := fixture.KindName(name); (kind == "CLOSED" || kind == "MANIFEST" || kind == "CURRENT") && !bytes.Equal(b, im[name]) {
			return false
		}
	}
	return true
}
