package db_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: MultiGet read the sequence number after the read state and did not check that the state
// was still current. It could see a write that was made after a load, but not the load.
func TestAReadStateHasEachLoadThatItsSequenceNumberShows(t *testing.T) {
	const loads = 30
	d := openTest(t, testOptions(vfs.NewMem()))
	var committed, stop atomic.Uint64 // the number of the last load that was followed by a write
	var group sync.WaitGroup
	for range 2 + 2*runtime.GOMAXPROCS(0) { // more than can run, so that they are stopped anywhere
		group.Go(func() {
			for seen := uint64(0); stop.Load() == 0 && !t.Failed(); {
				s, at := d.Finder().StateAt(nil)
				load := committed.Load()
				// A load's own number becomes visible a moment before its tables, and shows nothing of them then.
				if load == seen || at <= load {
					continue
				}
				seen = load
				newest := uint64(0)
				for level := range s.Version.Levels {
					for _, f := range s.Version.Levels[level].Files {
						newest = max(newest, f.Seqs.Load().Largest)
					}
				}
				if newest < load {
					t.Errorf("sequence number %d, but the newest table has entries up to %d and not the load with %d", at, newest, load)
				}
			}
		})
	}
	for range loads {
		l := newLoader(t, d)
		require.NoError(t, l.Put(testKey(1), testValue(1)))
		require.NoError(t, l.Commit())
		seq := d.Metrics().LastSequence
		require.NoError(t, d.Put(testKey(2), nil, db.NoSync))
		committed.Store(seq)
	}
	stop.Store(1)
	group.Wait()
}
