package scan_test

import (
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// loopsOf returns the calls of All and Backward of everything that has them.
func loopsOf(t *testing.T, d *db.DB) map[string]func(*db.IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	t.Helper()
	s, tx := d.NewSnapshot(), d.NewTransaction(nil)
	t.Cleanup(func() {
		_ = s.Close()
		_ = tx.Close()
	})
	n := result.Of(d.Namespace("n"))(t)
	return map[string]func(*db.IterOptions) (iter.Seq2[[]byte, []byte], func() error){
		"DB.All": d.All, "DB.Backward": d.Backward, "Snapshot.All": s.All, "Snapshot.Backward": s.Backward,
		"Transaction.All": tx.All, "Transaction.Backward": tx.Backward, "Namespace.All": n.All, "Namespace.Backward": n.Backward,
		"In.All": n.In(tx).All, "In.Backward": n.In(s).Backward,
	}
}

// A loop closes its iterator however it is left, and one that never begins has none.
func TestLoopsLeaveNoIteratorOpen(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.Fill(t, d, 0, 900)
	n := result.Of(d.Namespace("n"))(t)
	require.NoError(t, n.Put([]byte("key"), []byte("value"), db.NoSync))
	storetest.Settle(t, d)
	ways := map[string]func(entries iter.Seq2[[]byte, []byte]) (rounds int){
		"not at all": func(iter.Seq2[[]byte, []byte]) int { return 1 },
		"to the end": func(entries iter.Seq2[[]byte, []byte]) (rounds int) {
			for range entries {
				rounds++
			}
			return rounds
		},
		"break": func(entries iter.Seq2[[]byte, []byte]) (rounds int) {
			for range entries {
				require.EqualValues(t, 1, d.Metrics().OpenIterators)
				rounds++
				break
			}
			return rounds
		},
		"return": func(entries iter.Seq2[[]byte, []byte]) int {
			for range entries {
				return 1
			}
			return 0
		},
		"panic": func(entries iter.Seq2[[]byte, []byte]) (rounds int) {
			defer func() { require.Equal(t, "in the loop", recover()) }()
			for range entries {
				rounds++
				panic("in the loop")
			}
			return rounds
		},
		"the end of the goroutine": func(entries iter.Seq2[[]byte, []byte]) (rounds int) {
			var group sync.WaitGroup
			group.Go(func() {
				for range entries {
					rounds++
					runtime.Goexit()
				}
			})
			group.Wait()
			return rounds
		},
		"iter.Pull2": func(entries iter.Seq2[[]byte, []byte]) int {
			next, stop := iter.Pull2(entries)
			_, _, ok := next()
			require.True(t, ok)
			stop()
			return 1
		},
	}
	for name, all := range loopsOf(t, d) {
		for how, leave := range ways {
			t.Run(name+"/"+how, func(t *testing.T) {
				entries, failed := all(nil)
				require.Positive(t, leave(entries))
				require.Zero(t, d.Metrics().OpenIterators)
				require.NoError(t, failed())
			})
		}
	}
}

// The function that All returns has the error of each read that fails, of a closed store, and of one
// that is closed during the loop. The first error stays.
func TestLoopsReturnTheirError(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 900)
	reads, fail := 0, 0
	o.ReadOnly, o.Cache.Size = true, 4<<10
	o.FS = wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if fixture.IsTable(op.Name) && op.Kind == wrap.OpRead {
			if reads++; reads == fail {
				return &wrap.Fault{}
			}
		}
		return nil
	})
	for _, backward := range []bool{false, true} {
		failures, most := 0, 1
		for fail = 0; fail <= most; fail++ { // with 0, no read fails
			reads = 0
			d := storetest.MustOpen(t, o)
			entries, failed := d.All(nil)
			if backward {
				entries, failed = d.Backward(nil)
			}
			n := 0
			for range entries {
				n++
			}
			most = max(most, reads)
			if err := failed(); err != nil {
				require.ErrorIs(t, err, wrap.ErrInjected)
				require.Less(t, n, 900)
				failures++
				for range entries { // this time without a failure
				}
				require.Equal(t, err, failed())
			} else {
				require.Equal(t, 900, n)
			}
			require.Zero(t, d.Metrics().OpenIterators)
			require.NoError(t, d.Close())
		}
		require.Greater(t, failures, 5)
	}

	fail = 0
	d := storetest.MustOpen(t, o)
	loops := loopsOf(t, d)
	entries, failed := d.All(nil)
	n := 0
	for range entries {
		if n++; n == 5 {
			require.ErrorContains(t, d.Close(), "iterator")
		}
	}
	require.Equal(t, 5, n)
	require.Equal(t, db.ErrClosed, failed())
	for name, all := range loops {
		entries, failed := all(nil)
		for range entries {
			require.Fail(t, name)
		}
		require.Equal(t, db.ErrClosed, failed(), name)
	}
}

// Each loop shows the database at its beginning, and loops of one sequence can be within each other.
func TestEachLoopShowsItsBeginning(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	entries, failed := d.All(db.PrefixBounds([]byte("key")))
	for want := range 4 {
		var seen []string
		for key := range entries {
			seen = append(seen, string(key))
			require.NoError(t, d.Put(fixture.Key(want), fixture.Value(want), db.NoSync), "not shown")
			within := 0
			for range entries {
				within++
			}
			require.Equal(t, want+1, within)
		}
		require.NoError(t, d.Put(fixture.Key(want), fixture.Value(want), db.NoSync))
		require.Len(t, seen, want)
		require.True(t, slices.IsSorted(seen))
	}
	require.NoError(t, failed())
}

// Close names the line of the caller, not one of the library, for a clone and a loop too.
func TestTheOriginOfClonesAndLoopsIsReported(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.TrackOpen = true
	d := storetest.MustOpen(t, o)
	require.NoError(t, d.Put([]byte("key"), nil, db.NoSync))
	n := result.Of(d.Namespace("n"))(t)
	require.NoError(t, n.Put([]byte("key"), nil, db.NoSync))
	it := storetest.Iter(t, n, nil)
	clone, err := it.Clone(nil)
	require.NoError(t, err)
	for range must(n.In(d).All(nil)) {
		for range must(d.Backward(nil)) {
			err = d.Close()
			break
		}
	}
	require.ErrorContains(t, err, "4 iterators")
	require.NotContains(t, err.Error(), "iterator_loops.go")
	require.NotContains(t, err.Error(), "iterator_clone.go")
	require.NotContains(t, err.Error(), "namespace.go")
	require.ErrorIs(t, clone.Close(), nil)
	require.ErrorIs(t, it.Close(), nil)
}

// must returns the sequence of a loop that cannot fail.
func must(entries iter.Seq2[[]byte, []byte], _ func() error) iter.Seq2[[]byte, []byte] {
	return entries
}
