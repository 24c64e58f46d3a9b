package compact

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheBurstTriggerIsBelowTheSlowdown(t *testing.T) {
	for _, c := range []struct{ trigger, slowdown, want int }{
		{4, 12, 8}, {1, 12, 2}, {6, 12, 8}, {8, 12, 8}, {12, 12, 12}, {100, 300, 200}, {1, 1, 1}, {2, 3, 2},
	} {
		o := Tuning{L0Trigger: c.trigger, L0SlowdownTrigger: c.slowdown}
		require.Equal(t, c.want, o.burstTrigger(), "%+v", c)
	}
}

// fillMemtable flushes a memtable that has become full.
func (st *testStore) fillMemtable() {
	st.BeginBurst()
	st.flush(numbered(0, 10)...)
	synctest.Wait()
}

// burstOf is a store in which so many memtables have become full at one moment.
func burstOf(t *testing.T, n int) *testStore {
	st := newTestStore(t, nil)
	for range n {
		st.fillMemtable()
	}
	return st
}

func TestLevelZeroGathersTwiceTheTablesInABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 3)
		require.False(t, st.Status().Gathering, "nothing is due")
		for n := 4; n < 8; n++ {
			st.fillMemtable()
			require.Len(t, st.files(0), n)
			require.True(t, st.Status().Gathering)
		}
		st.fillMemtable()
		require.Empty(t, st.files(0))
		require.Len(t, st.infos, 1)
	})
}

func TestTheEndOfABurstIsNoticedAutomatically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		time.Sleep(burstPause / 2)
		st.fillMemtable()
		time.Sleep(burstPause - 1)
		require.Len(t, st.files(0), 6, "the burst goes on")
		time.Sleep(time.Second)
		require.Empty(t, st.files(0))
		require.False(t, st.Status().Gathering)
	})
}

// Each of the tables alone would be worth a compaction of what is below.
func TestTombstonesOfABurstAreCompactedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		st.put(6, numbered(0, 200)...)
		for n := range 3 {
			st.BeginBurst()
			var deletions []entry
			for i := n; i < 180; i += 3 {
				deletions = append(deletions, del(testKey(i)))
			}
			st.flush(deletions...)
			synctest.Wait()
		}
		require.Len(t, st.files(0), 3)
		require.True(t, st.Status().Gathering)
		time.Sleep(2 * burstPause)
		require.Empty(t, st.files(0))
		require.Len(t, st.infos, 1)
		require.Len(t, st.content(6), 20)
	})
}

func TestEndBurstStartsWhatWaitedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		st.EndBurst()
		st.Schedule()
		synctest.Wait()
		require.Empty(t, st.files(0))
	})
}

// The clock stands still, so the burst would never end.
func TestCloseDoesNotWaitForTheEndOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		start := time.Now()
		st.Close()
		st.Wait()
		require.Zero(t, time.Since(start))
		require.Len(t, st.files(0), 5)
	})
}
