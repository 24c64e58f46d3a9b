package compact

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// No compaction starts during a pause, however many are due, and it begins when the last pause ends.
func TestPausesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		first, second := reasons[modePaused](t, st), reasons[modePaused](t, st)
		require.Equal(t, 2, st.Status().Pauses)
		for range 6 {
			st.flush(numbered(0, 10)...)
		}
		time.Sleep(time.Hour)
		require.Len(t, st.files(0), 6)
		first()
		first() // again: it must not end the other pause
		time.Sleep(time.Hour)
		require.Equal(t, 1, st.Status().Pauses)
		require.Len(t, st.files(0), 6)
		second()
		synctest.Wait()
		require.Zero(t, st.Status().Pauses)
		require.Empty(t, st.files(0))
	})
}

// A pause begins when the running compactions have ended. Those that a caller asked for do not count.
func TestAPauseWaitsForRunningCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		st := newTestStore(t, func(o *storeOptions) { o.Tuning.MaxConcurrent = 2 })
		st.onBegin = func(Info) { <-proceed }
		st.put(5, set("x", ""))
		st.put(6, set("x", ""))
		go func() { _ = st.compactLevel(context.Background(), 5, nil, nil) }()
		synctest.Wait()
		reasons[modePaused](t, st)() // it did not wait for that
		for range 4 {
			st.flush(numbered(0, 10)...)
		}
		synctest.Wait()
		require.Equal(t, 2, st.Status().Running)
		paused := make(chan func(), 1)
		go func() { paused <- reasons[modePaused](t, st) }()
		time.Sleep(time.Hour)
		require.Empty(t, paused)
		close(proceed)
		synctest.Wait()
		require.Len(t, st.infos, 2)
		(<-paused)()
	})
}

// A compaction that runtime.Goexit ends is over, so that pauses do not wait for it.
func TestAPauseAfterAListenerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		st.onBegin = func(Info) { runtime.Goexit() }
		for range 4 {
			st.flush(numbered(0, 10)...)
		}
		synctest.Wait()
		require.Zero(t, st.Status().Running)
		require.Zero(t, st.Status().Slots)
		st.onBegin = nil
		reasons[modePaused](t, st)()
		synctest.Wait()
		require.Empty(t, st.files(0), "the inputs were released")
	})
}

// A failed compaction that waits for its next attempt does not delay a pause, and is not tried during it.
func TestAPauseDuringABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.Schedule()
		synctest.Wait()
		start := time.Now()
		resume := reasons[modePaused](t, st)
		require.Zero(t, time.Since(start))
		st.fault(nil)
		time.Sleep(time.Hour)
		require.Len(t, st.infos, 1)
		require.Error(t, st.Status().Err, "it is still due")
		resume()
		synctest.Wait()
		require.Empty(t, st.files(0))
		require.NoError(t, st.Status().Err)
	})
}

// The bug: the error stayed for good if what had failed was not due any more.
func TestTheErrorOfACompactionEndsWhenNoneIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.Schedule()
		synctest.Wait()
		edit := &manifest.Edit{}
		for _, f := range st.files(0) { // as a deletion of their range
			edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: 0, Num: f.Num})
		}
		require.NoError(t, st.set.Apply(edit, nil))
		st.Schedule()
		require.Error(t, st.Status().Err, "the back-off is not over")
		time.Sleep(time.Minute)
		require.NoError(t, st.Status().Err)
	})
}
