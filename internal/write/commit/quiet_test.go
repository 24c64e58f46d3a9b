package commit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/memtable"
)

// The bug: nothing waited for quiet any more if a memtable became full during a look at it, so Scheduler.BeginBurst had
// the last word.
func TestQuietComesAfterAMemtableThatBecameFullDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *store
		var quiet, filled atomic.Bool
		s = open(t, config{change: func(o *Start) {
			o.SetQuiet = quiet.Store
			o.Full = func() { quiet.Store(false) }
			o.WouldFree = func(mem *memtable.Memtable, _ bool) (*manifest.Gain, bool) {
				for i := 0; !filled.Load() && s.state().Mem.Memtable == mem && i < 1000; i++ {
					require.NoError(t, s.put(i, InBuffer))
				}
				return nil, true
			}
		}})
		s.flushAlways()
		require.NoError(t, s.put(0, InBuffer))
		time.Sleep(quietFor + time.Second)
		require.False(t, quiet.Load())
		filled.Store(true)
		time.Sleep(3 * quietFor)
		require.True(t, quiet.Load())
	})
}

// The bug: the memtable was looked at after each write that no other followed for three seconds, however long that
// took.
func TestLooksAtTheMemtableTakeLittleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		s := open(t, config{change: func(o *Start) {
			o.WouldFree = func(*memtable.Memtable, bool) (*manifest.Gain, bool) {
				time.Sleep(time.Second / 2)
				took += time.Second / 2
				return nil, true
			}
		}})
		for i := range 75 {
			require.NoError(t, s.put(i%2, InBuffer))
			time.Sleep(4 * time.Second)
		}
		synctest.Wait()
		require.Less(t, took, 10*time.Second)
	})
}
