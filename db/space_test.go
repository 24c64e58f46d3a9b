package db_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// quietly is longer than tombstones wait for others, on the clock of a bubble.
const quietly = 10 * time.Second

// spaceTest is a store in which values die.
type spaceTest struct {
	*testing.T
	d      *db.DB
	filler []byte
}

// put puts n values of that many bytes that do not compress.
func (s *spaceTest) put(prefix string, n, size int) {
	for i := range n {
		from := (i * 7919) % (len(s.filler) - size)
		require.NoError(s, s.d.Put(fmt.Appendf(nil, "%s%06d", prefix, i), s.filler[from:from+size], db.NoSync))
	}
}

func (s *spaceTest) remove(prefix string, n int) {
	for i := range n {
		require.NoError(s, s.d.Delete(fmt.Appendf(nil, "%s%06d", prefix, i), db.NoSync))
	}
}

func (s *spaceTest) removeRange() {
	require.NoError(s, s.d.DeleteRange(s.Context(), []byte("a"), []byte("b"), nil))
}

// under calls die while a snapshot, and a transaction, are open, and closes them when the store has rested.
func (s *spaceTest) under(die func()) {
	snap, txn := s.d.NewSnapshot(), s.d.NewTransaction(nil)
	die()
	time.Sleep(quietly)
	require.NoError(s, snap.Close())
	time.Sleep(quietly)
	value, err := txn.Get([]byte("a000000"))
	require.NoError(s, err)
	require.NotEmpty(s, value)
	require.NoError(s, txn.Close())
}

func (s *spaceTest) flush() { require.NoError(s, s.d.Flush()) }

// The bugs: what tombstones and newer versions hide was judged by their number, and by the bytes of the tables that
// have the keys. So large values stayed, in tables of their own, in memtables, or under short ones, and what a snapshot
// had held did so after its end.
func TestSpaceComesBackWithoutACall(t *testing.T) {
	const n, size = 300, 20 << 10
	cases := map[string]func(s *spaceTest){
		"deleted":                           func(s *spaceTest) { s.put("a", n, size); s.flush(); s.remove("a", n) },
		"deleted, in the memtable":          func(s *spaceTest) { s.put("a", 20, 500<<10); s.remove("a", 20) },
		"half deleted":                      func(s *spaceTest) { s.put("a", n, size); s.flush(); s.remove("a", n/2) },
		"replaced by short ones":            func(s *spaceTest) { s.put("a", n, size); s.flush(); s.put("a", n, 5) },
		"replaced in part":                  func(s *spaceTest) { s.put("a", n, size); s.flush(); s.put("a", n/2, 5) },
		"replaced by ones of the same size": func(s *spaceTest) { s.put("a", n, size); s.flush(); s.put("a", n, size) },
		"few long ones among short ones, deleted": func(s *spaceTest) {
			s.put("a", 10, 500<<10)
			s.put("b", 5000, 10)
			s.flush()
			s.put("b", 5000, 20)
			s.remove("a", 10)
		},
		"a range": func(s *spaceTest) { s.put("a", n, size); s.flush(); s.removeRange() },
		"a range under a snapshot": func(s *spaceTest) {
			s.put("a", n, size)
			s.flush()
			s.under(s.removeRange)
		},
		"deleted under a snapshot": func(s *spaceTest) {
			s.put("a", n, size)
			s.under(func() { s.remove("a", n) })
		},
		"replaced under a snapshot": func(s *spaceTest) {
			s.put("a", n, size)
			s.under(func() { s.put("a", n, 5); s.flush(); require.NoError(s, s.d.Compact(s.Context(), nil, nil)) })
		},
		"before the store was opened": func(s *spaceTest) {
			s.put("a", n, size)
			s.flush()
			s.put("a", n, 5)
			s.flush()
			o := s.d.Options()
			require.NoError(s, s.d.Close())
			s.d = openTest(s.T, &o)
		},
	}
	for name, die := range cases {
		for _, separate := range []int{0, 1 << 10} {
			t.Run(fmt.Sprintf("%s, apart from %d on", name, separate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := testOptions(vfs.NewMem())
					o.Memtables.Size, o.Tables.Size, o.Tables.SeparateValues = 1<<20, 64<<10, separate
					s := &spaceTest{T: t, d: openTest(t, o), filler: make([]byte, 1<<20)}
					_, _ = rand.NewChaCha8([32]byte{}).Read(s.filler)
					die(s)
					time.Sleep(quietly)
					requireLittleGarbage(t, s.d)
				})
			})
		}
	}
}

// requireLittleGarbage requires that the files are not much larger than what lives.
func requireLittleGarbage(t testing.TB, d *db.DB) {
	live := uint64(0)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		live += uint64(len(it.Key()) + len(it.Value()))
	}
	require.NoError(t, it.Close())
	usage, err := d.DiskUsage()
	require.NoError(t, err)
	require.LessOrEqual(t, usage.Tables, live*8/5+128<<10, "%d bytes live; garbage %d", live, d.Metrics().Tables.ValueGarbage)
}
