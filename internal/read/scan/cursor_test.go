package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
)

const (
	modelKeys = 60
	modelNow  = 100 // ms
)

// entry is a version of a key.
type entry struct {
	seq     uint64
	value   string
	deleted bool
	expires uint64
}

// store has versions of the keys of tabletest in tables, memtables and a transaction's writes.
type store struct {
	t       *testing.T
	rnd     *rand.Rand
	src     Source
	open    atomic.Bool
	tables  *tabletest.Store
	mems    []*memtable.Memtable // newest first
	own     txn.Writes
	seq     uint64
	entries [modelKeys][]entry
	written [modelKeys]*entry // own writes
}

func newStore(t *testing.T, rnd *rand.Rand, expires bool) *store {
	s := &store{t: t, rnd: rnd, tables: tabletest.New(t, filter.NewBloomPolicy(10)), own: txn.Writes{Comparer: base.Bytewise}}
	s.src = Source{
		Comparer: base.Bytewise, Tables: s.tables.Cache, Ranges: (*counters.Ranges)(nil),
		Open: &s.open, CacheSize: func() int64 { return 1 << 20 },
	}
	if expires {
		s.src.Expiry = expiry.New([][]byte{[]byte("key")}, func() time.Time { return time.UnixMilli(modelNow) })
	}
	s.open.Store(true)
	return s
}

// newEntry returns a version with the next sequence number, and how it is stored.
func (s *store) newEntry(mayDelete bool) (e entry, kind base.Kind, stored string) {
	s.seq++
	e = entry{seq: s.seq, deleted: mayDelete && s.rnd.IntN(3) == 0}
	if e.deleted {
		return e, base.KindDelete, ""
	}
	e.value = fmt.Sprintf("%d", s.seq)
	if s.src.Expiry != nil {
		e.expires = []uint64{expiry.Never, modelNow / 2, 2 * modelNow}[s.rnd.IntN(3)]
		return e, base.KindSet, string(expiry.Append(nil, e.expires, []byte(e.value)))
	}
	return e, base.KindSet, e.value
}

// addTable adds a table with one version of some keys.
func (s *store) addTable() {
	e, _, stored := s.newEntry(false)
	var numbers []int
	for n := range s.entries {
		if s.rnd.IntN(3) == 0 {
			numbers, s.entries[n] = append(numbers, n), append(s.entries[n], e)
		}
	}
	if len(numbers) > 0 {
		s.tables.Add(0, e.seq, stored, numbers...)
	}
}

// addMemtable adds a memtable with versions of some keys.
func (s *store) addMemtable() {
	m := memtable.New(base.Bytewise, 64<<10)
	for range s.rnd.IntN(100) {
		n := s.rnd.IntN(modelKeys)
		e, kind, stored := s.newEntry(true)
		require.True(s.t, m.Add(e.seq, kind, tabletest.Key(n), []byte(stored)))
		s.entries[n] = append(s.entries[n], e)
	}
	s.mems = append([]*memtable.Memtable{m}, s.mems...)
}

// addWrites adds a transaction's own writes, which have no envelopes yet.
func (s *store) addWrites() {
	var entries []byte
	count := 1 + s.rnd.IntN(20)
	for i := range count {
		n, e, kind := s.rnd.IntN(modelKeys), entry{value: fmt.Sprintf("own %d", i)}, base.KindSet
		if s.rnd.IntN(3) == 0 {
			e, kind = entry{deleted: true}, base.KindDelete
		}
		entries, s.written[n] = batch.AppendEntry(entries, kind, tabletest.Key(n), []byte(e.value)), &e
	}
	s.own.Update(entries, uint32(count))
}

// cursor opens a cursor as of seq.
func (s *store) cursor(v *version.Version, seq uint64, o *Options) *Cursor {
	require.True(s.t, v.TryRef())
	c := new(Cursor)
	c.Start(&s.src, v, seq, modelNow)
	c.AddWrites(s.own.Iter())
	for _, m := range s.mems {
		c.AddMemtable(m)
	}
	c.Open(o)
	return c
}

// bounds returns random bounds.
func (s *store) bounds() (lower, upper []byte) {
	if s.rnd.IntN(2) == 0 {
		lower = tabletest.Key(s.rnd.IntN(modelKeys))
	}
	if s.rnd.IntN(2) == 0 {
		upper = tabletest.Key(s.rnd.IntN(modelKeys))
	}
	return lower, upper
}

// expected is a key with its value.
type expected struct{ key, value string }

// visible returns what a cursor as of seq shows, in order.
func (s *store) visible(seq uint64, lower, upper []byte) (all []expected) {
	for n := range s.entries {
		key := string(tabletest.Key(n))
		if lower != nil && key < string(lower) || upper != nil && key >= string(upper) {
			continue
		}
		newest := s.written[n]
		for i := len(s.entries[n]) - 1; i >= 0 && newest == nil; i-- {
			if s.entries[n][i].seq <= seq {
				newest = &s.entries[n][i]
			}
		}
		if newest != nil && !newest.deleted && (newest.expires == expiry.Never || newest.expires > modelNow) {
			all = append(all, expected{key, newest.value})
		}
	}
	return all
}

// check moves c at random and compares it with all. Keys of c lack a prefix of some bytes.
func (s *store) check(c *Cursor, all []expected, keysOnly bool, prefix int) {
	at := -1
	for range 150 {
		ok, seek := false, tabletest.Key(s.rnd.IntN(modelKeys))
		first := slices.IndexFunc(all, func(e expected) bool { return e.key >= string(seek) })
		if first < 0 {
			first = len(all)
		}
		switch s.rnd.IntN(10) {
		case 0:
			at, ok = 0, c.First()
		case 1:
			at, ok = len(all)-1, c.Last()
		case 2:
			at, ok = first, c.SeekGE(seek[prefix:])
		case 3:
			at, ok = first-1, c.SeekLT(seek[prefix:])
		case 4, 5, 6:
			at, ok = min(at+1, len(all)), c.Next()
		default:
			at, ok = max(at-1, -1), c.Prev()
		}
		require.NoError(s.t, c.Err())
		require.Equal(s.t, at >= 0 && at < len(all), ok)
		require.Equal(s.t, ok, c.Valid())
		if !ok {
			require.Nil(s.t, c.Key())
			require.Nil(s.t, c.Value())
			continue
		}
		require.Equal(s.t, all[at].key[prefix:], string(c.Key()))
		if keysOnly {
			require.Nil(s.t, c.Value())
		} else {
			require.Equal(s.t, all[at].value, string(c.Value()))
		}
	}
}

// A cursor over any runs shows the newest visible version of each key, however it moves.
func TestACursorShowsTheNewestVisibleVersions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 40 {
		s := newStore(t, rnd, round%2 == 1)
		for range rnd.IntN(5) {
			s.addTable()
		}
		for range rnd.IntN(4) {
			s.addMemtable()
		}
		if rnd.IntN(3) == 0 {
			s.addWrites()
		}
		v := s.tables.Version()
		seq := s.seq - uint64(rnd.IntN(int(s.seq/2)+1))
		o := &Options{KeysOnly: rnd.IntN(4) == 0, NoFillCache: rnd.IntN(2) == 0}
		o.LowerBound, o.UpperBound = s.bounds()
		c := s.cursor(v, seq, o)
		s.check(c, s.visible(seq, o.LowerBound, o.UpperBound), o.KeysOnly, 0)

		var same, other Cursor
		require.True(t, c.Clone(&same, nil))
		other.SetPrefix([]byte("replaced"))
		require.True(t, c.Clone(&other, &Options{}))
		s.check(&same, s.visible(seq, o.LowerBound, o.UpperBound), o.KeysOnly, 0)
		s.check(&other, s.visible(seq, nil, nil), false, 0)
		lower, upper := s.bounds()
		c.SetBounds(lower, upper)
		s.check(c, s.visible(seq, lower, upper), o.KeysOnly, 0)
		for _, c := range []*Cursor{c, &same, &other} {
			c.Close()
			c.Close()
			require.NoError(t, c.Err())
			require.True(t, c.Closed())
			require.False(t, c.First())
			require.Equal(t, base.ErrClosed, c.Err())
			require.False(t, c.Clone(new(Cursor), nil))
		}
	}
}

// A namespace's cursor leaves out the prefix, and its bounds are without it.
func TestACursorLeavesOutAPrefix(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 2)), false)
	s.addTable()
	s.addMemtable()
	c := s.cursor(s.tables.Version(), s.seq, &Options{LowerBound: []byte("key000"), UpperBound: []byte("key001")})
	c.SetPrefix([]byte("key"))
	s.check(c, s.visible(s.seq, nil, nil), false, 3)
	c.SetBounds([]byte("0000010"), nil)
	s.check(c, s.visible(s.seq, tabletest.Key(10), nil), false, 3)
	lower, _ := c.Bounds()
	require.Equal(t, tabletest.Key(10), lower)
	c.Close()
}

// Nothing moves once the store is closed, and a value without an envelope is an error.
func TestACursorEndsWithAnError(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 3)), true)
	s.tables.Add(0, 1, "no envelope, but long enough", 1, 2, 3)
	s.seq = 1
	v := s.tables.Version()
	moves := []func(*Cursor) bool{(*Cursor).First, (*Cursor).Last, (*Cursor).Next}
	for _, move := range moves {
		c := s.cursor(v, s.seq, &Options{})
		require.False(t, move(c))
		require.ErrorIs(t, c.Err(), expiry.ErrNoEnvelope)
		require.False(t, move(c), "it stays failed")
		c.Close()
		require.ErrorIs(t, c.Err(), expiry.ErrNoEnvelope)
	}
	c := s.cursor(v, s.seq, &Options{})
	c.ShowExpired()
	require.True(t, c.First())
	require.Equal(t, "no envelope, but long enough", string(c.Value()))
	s.open.Store(false)
	require.False(t, c.Next())
	require.Equal(t, base.ErrClosed, c.Err())
	require.False(t, c.Clone(new(Cursor), nil))
	c.Close()
}

// A damaged block is an error of the movement that reads it.
func TestACursorReportsDamage(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 4)), false)
	s.tables.Flip(s.tables.Add(0, 1, "value", 1, 2, 3), 1)
	for _, move := range []func(*Cursor) bool{(*Cursor).First, (*Cursor).Last} {
		c := s.cursor(s.tables.Version(), 1, &Options{})
		require.False(t, move(c))
		require.ErrorIs(t, c.Err(), base.ErrCorruption)
		c.Close()
		require.ErrorIs(t, c.Err(), base.ErrCorruption)
	}
}

// What a cursor visits is in the reads of its transaction, and what it does not is not.
func TestACursorRecordsWhatItVisits(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 5)), false)
	s.tables.Add(0, 1, "value", 10, 20, 30, 40)
	v := s.tables.Version()
	for _, test := range []struct {
		name  string
		walk  func(c *Cursor)
		first int // of the keys that were read
		last  int
	}{
		{"nothing", func(*Cursor) {}, 1, 0},
		{"forward", func(c *Cursor) { c.SeekGE(tabletest.Key(15)); c.Next() }, 15, 30},
		{"to the end", func(c *Cursor) { c.SeekGE(tabletest.Key(35)); c.Next(); c.Next() }, 35, 59},
		{"backward", func(c *Cursor) { c.SeekLT(tabletest.Key(35)); c.Prev() }, 20, 34},
		{"and back", func(c *Cursor) { c.SeekGE(tabletest.Key(25)); c.Prev(); c.Prev(); c.Next(); c.Next() }, 10, 30},
		{"from the first key", func(c *Cursor) { c.First() }, 0, 10},
		{"from the last key", func(c *Cursor) { c.Last() }, 40, 59},
		{"within bounds", func(c *Cursor) { c.SetBounds(tabletest.Key(5), tabletest.Key(25)); c.Last(); c.Prev(); c.Prev() }, 5, 24},
		{"forgotten", func(c *Cursor) { c.First(); c.Forget() }, 1, 0},
	} {
		reads := txn.Reads{Comparer: base.Bytewise}
		c := s.cursor(v, 1, &Options{})
		c.Record(&reads)
		test.walk(c)
		c.Close()
		reads.Prepare()
		for n := range modelKeys {
			require.Equal(t, n >= test.first && n <= test.last, reads.Covers(tabletest.Key(n)), "%s: key %d", test.name, n)
		}
	}
}

// Going backward, values are copied only for those who want them.
func TestKeysOnlyCopiesNoValue(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 6)), false)
	var numbers []int
	for n := range 50 {
		numbers = append(numbers, n)
	}
	s.tables.Add(0, 1, string(make([]byte, 5000)), numbers...) // larger than a block
	v := s.tables.Version()
	for _, keysOnly := range []bool{false, true} {
		c := s.cursor(v, 1, &Options{KeysOnly: keysOnly})
		c.valueBuf = nil // the pool may have given a used one
		n := 0
		for ok := c.Last(); ok; ok = c.Prev() {
			require.Equal(t, string(tabletest.Key(49-n)), string(c.Key()))
			require.Equal(t, keysOnly, c.Value() == nil)
			n++
		}
		require.Equal(t, 50, n)
		require.Equal(t, keysOnly, c.valueBuf == nil)
		c.Close()
	}
}

// The pool keeps no large buffers.
func TestThePoolKeepsNoLargeBuffers(t *testing.T) {
	s := newStore(t, rand.New(rand.NewPCG(1, 7)), false)
	s.tables.Add(0, 1, string(make([]byte, mostPooled)), 1)
	s.tables.Add(0, 2, string(make([]byte, 2*mostPooled)), 2)
	s.tables.Add(0, 3, "small", 0)
	c := s.cursor(s.tables.Version(), 3, &Options{})
	p := c.parts
	require.True(t, c.Last())
	require.True(t, c.Prev())
	require.True(t, c.Prev())
	require.Equal(t, "small", string(c.Value()))
	c.keepValue(make([]byte, 2*mostPooled))
	c.Close()
	require.Nil(t, p.valueBuf)
	require.Nil(t, p.version)
}
