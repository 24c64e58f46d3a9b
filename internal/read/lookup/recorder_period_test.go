package lookup

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

// The slowest of the last one to two minutes are kept, whatever came before and after them.
func TestTheRecorderKeepsTheSlowestOfTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{began: time.Now()}
		add := func(took time.Duration) {
			r.add(&Explained{Kind: base.KindSet, Duration: took}, make([]byte, 2*mostKeyBytes), time.Now())
		}
		for i := range 3 * mostRecorded {
			add(time.Duration(i*7%(3*mostRecorded)) + 1)
		}
		durations := func() (all []time.Duration) {
			for _, s := range r.slowest() {
				all = append(all, s.Explanation.Duration)
				require.Equal(t, 2*mostKeyBytes, s.KeyBytes)
				require.Len(t, s.Key, mostKeyBytes)
			}
			return all
		}
		require.Len(t, durations(), mostRecorded)
		require.EqualValues(t, 3*mostRecorded, durations()[0])
		require.EqualValues(t, 2*mostRecorded+1, durations()[mostRecorded-1])

		time.Sleep(recordPeriod)
		require.Len(t, durations(), mostRecorded, "those of the last minute stay")
		add(1)
		add(time.Second)
		require.Equal(t, time.Second, durations()[0])
		require.Len(t, durations(), mostRecorded)
		time.Sleep(recordPeriod)
		require.Equal(t, []time.Duration{time.Second, 1}, durations())
		time.Sleep(2 * recordPeriod)
		require.Empty(t, durations())
	})
}

// A Finder that nobody asks has no recorder, and recording ends when nobody asks any more.
func TestRecordingEndsByItself(t *testing.T) {
	store := tabletest.New(t, policy)
	store.Add(1, 2, "value", 1)
	state := &State{Mem: emptyMemtable(), Version: store.Version()}
	synctest.Test(t, func(t *testing.T) {
		f := newFinder(Options{Cache: store.Cache, Measured: func(time.Duration) {}}, state)
		toRecord := func() (n int) { // the number of stripes whose next lookup is recorded, after one is measured
			for i := range f.counts {
				f.counts[i].SetDue()
			}
			requireValue(t, f, 1, nil, "value")
			for i := range f.counts {
				if f.counts[i].TakeDue() == counters.DueRecord {
					n++
				}
			}
			return n
		}
		require.Zero(t, toRecord())
		require.Nil(t, f.recorder.Load())
		require.Empty(t, f.Slowest(time.Second))
		require.Equal(t, 1, toRecord())
		time.Sleep(time.Second)
		require.Zero(t, toRecord())
		require.Nil(t, f.recorder.Load())
	})
}
