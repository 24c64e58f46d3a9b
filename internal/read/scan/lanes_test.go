package scan_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

var laneRounds = flag.Int("lanes.rounds", 1, "rounds of TestWalksInLanesAgreeWithASortedSlice")

// laneKeys returns keys that are stored as differences in many ways: counters, the empty key, keys that are prefixes of
// each other or end like an internal key, and long ones.
func laneKeys(rnd *rand.Rand, n int) []string {
	keys := []string{"", "\x00", "\xff", "\xff\xff"}
	for i := range n {
		key := fmt.Sprintf("key%05d", i*[]int{1, 9}[i%2])
		switch rnd.IntN(12) {
		case 0:
			key += string([]byte{1, byte(rnd.UintN(4)), 0, 0, 0, 0, 0, 0}) // like a trailer
		case 1:
			key += strings.Repeat("\x00", 1+rnd.IntN(9))
		case 2:
			key = strings.Repeat("p", 1+rnd.IntN(40))
		case 3:
			key = strings.Repeat("l", 100+rnd.IntN(60)) + key
		case 4:
			key += strings.Repeat("s", 110+rnd.IntN(60))
		case 5:
			key = key[:rnd.IntN(len(key))]
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// laneValueLengths are lengths of one, two and three bytes, and values that are larger than a block.
var laneValueLengths = []int{0, 1, 20, 100, 127, 128, 129, 600, 16383, 16384}

// laneStore is a store with many versions and tombstones in memtables and tables.
type laneStore struct {
	t      *testing.T
	d      *db.DB
	ns     *db.Namespace // nil: plain
	rnd    *rand.Rand
	keys   []string
	values map[string]string
}

func newLaneStore(t *testing.T, rnd *rand.Rand) *laneStore {
	o := storetest.Options(vfs.NewMem())
	o.Tables.BlockSize = 128 << rnd.IntN(6)
	o.Tables.Size = int64(4<<10) << rnd.IntN(5)
	o.Tables.RestartInterval = []int{1, 2, 16, 40}[rnd.IntN(4)]
	o.Cache.Size = []int64{-1, 8 << 10, 64 << 10, 4 << 20}[rnd.IntN(4)]
	o.Memtables.Size = 16 << (10 + rnd.IntN(3))
	if rnd.IntN(3) == 0 {
		o.Tables.Compression = db.NoCompression
	}
	if rnd.IntN(4) == 0 {
		o.Expiry.Prefixes = [][]byte{[]byte("key000")}
	}
	s := &laneStore{t: t, d: storetest.Open(t, o), rnd: rnd, keys: laneKeys(rnd, 100+rnd.IntN(500)), values: map[string]string{}}
	if rnd.IntN(4) == 0 {
		var err error
		s.ns, err = s.d.Namespace("n")
		require.NoError(t, err)
	}
	for range 1 + rnd.IntN(8) {
		s.write(formDB{s.d}, s.values, 1+rnd.IntN(2*len(s.keys)))
		switch rnd.IntN(4) {
		case 0:
			storetest.Settle(t, s.d)
		case 1, 2:
			require.NoError(t, s.d.Flush())
		}
	}
	return s
}

// write puts and deletes n keys, in runs or at random.
func (s *laneStore) write(w formWriter, values map[string]string, n int) {
	at, deletes := 0, []int{0, 3, 10, 1000}[s.rnd.IntN(4)]
	for i := range n {
		if at++; s.rnd.IntN(20) == 0 || at >= len(s.keys) {
			at = s.rnd.IntN(len(s.keys))
		}
		key := s.keys[at]
		if s.rnd.IntN(deletes+2) == 0 {
			require.NoError(s.t, w.del(s.ns.Key([]byte(key))))
			delete(values, key)
			continue
		}
		length := laneValueLengths[min(s.rnd.IntN(len(laneValueLengths)), s.rnd.IntN(3*len(laneValueLengths)))]
		value := strings.Repeat(string(rune('a'+i%26)), length)
		require.NoError(s.t, w.put(s.ns.Key([]byte(key)), []byte(value)))
		values[key] = value
	}
}

// reader returns what an iterator is made from, what it shows, and what ends it.
func (s *laneStore) reader() (from iterable, values map[string]string, end func()) {
	values = maps.Clone(s.values)
	end = func() {}
	var r db.Reader = s.d
	switch s.rnd.IntN(4) {
	case 0:
		snapshot := s.d.NewSnapshot()
		r, end = snapshot, func() { require.NoError(s.t, snapshot.Close()) }
		s.write(formDB{s.d}, s.values, len(s.keys))
	case 1:
		tx := s.d.NewTransaction(nil)
		r, end = tx, func() { _ = tx.Close() }
		s.write(formTx{tx}, values, s.rnd.IntN(60))
	case 2:
		if s.ns == nil {
			bulk, err := s.d.NewBulkTransaction()
			require.NoError(s.t, err)
			s.write(laneBulk{bulk}, values, len(s.keys))
			return bulk, values, func() { _ = bulk.Close() }
		}
	}
	if s.ns != nil {
		return s.ns.In(r), values, end
	}
	return r, values, end
}

// iterable is what has iterators.
type iterable interface {
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

type laneBulk struct{ t *db.BulkTransaction }

func (w laneBulk) put(key, value []byte) error { return w.t.Put(key, value) }
func (w laneBulk) del(key []byte) error        { return w.t.Delete(key) }

// target returns a key, one near a key, or nil.
func (s *laneStore) target() []byte {
	key := []byte(s.keys[s.rnd.IntN(len(s.keys))])
	switch s.rnd.IntN(6) {
	case 0:
		key = append(key, 0)
	case 1:
		key = append(key, "\xff\xff"...)
	case 2:
		key = key[:s.rnd.IntN(len(key)+1)]
	}
	return key
}

func (s *laneStore) options() *db.IterOptions {
	o := &db.IterOptions{KeysOnly: s.rnd.IntN(4) == 0, NoFillCache: s.rnd.IntN(4) == 0}
	if s.rnd.IntN(3) == 0 {
		o.LowerBound = s.target()
	}
	if s.rnd.IntN(3) == 0 {
		o.UpperBound = s.target()
	}
	return o
}

// Walks agree with a sorted slice, whatever movements follow each other, in all that lanes depend on: the differences
// between keys, the lengths of values, versions and tombstones in several runs, blocks in the cache, in slices and read
// ahead, bounds, snapshots, transactions, namespaces and expiry.
func TestWalksInLanesAgreeWithASortedSlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range *laneRounds {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		stores := 12
		if testing.Short() {
			stores = 4
		}
		for range stores {
			s := newLaneStore(t, rnd)
			for range 6 {
				s.walk()
				s.write(formDB{s.d}, s.values, 20)
			}
			require.NoError(t, s.d.Close())
		}
	}
}

// walk makes an iterator and moves it, usually several steps in one direction.
func (s *laneStore) walk() {
	r, values, end := s.reader()
	defer end()
	o := s.options()
	it, err := r.NewIterator(o)
	require.NoError(s.t, err)
	f := &form{it, newFormModel(values, o)}
	defer func() { require.NoError(s.t, f.it.Close()) }()
	for range 25 {
		switch s.rnd.IntN(8) {
		case 0:
			s.step(f, "First", func() bool { f.m.at = 0; return f.it.First() })
		case 1:
			s.step(f, "Last", func() bool { f.m.at = len(f.m.keys) - 1; return f.it.Last() })
		case 2, 3:
			key := s.target()
			s.step(f, "SeekGE", func() bool { f.m.at = sort.SearchStrings(f.m.keys, string(key)); return f.it.SeekGE(key) })
		case 4, 5:
			key := s.target()
			s.step(f, "SeekLT", func() bool { f.m.at = sort.SearchStrings(f.m.keys, string(key)) - 1; return f.it.SeekLT(key) })
		case 6:
			o := s.options()
			f.m.setBounds(o.LowerBound, o.UpperBound)
			f.it.SetBounds(o.LowerBound, o.UpperBound)
		default:
			c, err := f.it.Clone(nil)
			require.NoError(s.t, err)
			require.NoError(s.t, f.it.Close())
			f.it, f.m.at = c, -1
		}
		s.run(f)
	}
}

func (s *laneStore) step(f *form, what string, move func() bool) { f.require(s.t, move(), what) }

// run steps forward and backward.
func (s *laneStore) run(f *form) {
	for range 1 + s.rnd.IntN(3) {
		n := 1 + s.rnd.IntN([]int{2, 10, 60}[s.rnd.IntN(3)])
		if s.rnd.IntN(2) == 0 {
			for range n {
				s.step(f, "Next", func() bool { f.m.at = min(f.m.at+1, len(f.m.keys)); return f.it.Next() })
			}
			continue
		}
		for range n {
			s.step(f, "Prev", func() bool { f.m.at = max(f.m.at-1, -1); return f.it.Prev() })
		}
	}
}
