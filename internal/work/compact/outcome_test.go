package compact

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
)

func TestBackoffsDoubleUpToALimit(t *testing.T) {
	var b Backoff
	var waits []time.Duration
	for range 12 {
		waits = append(waits, b.Next(errors.New("broken")))
	}
	require.Equal(t, 50*time.Millisecond, waits[0])
	for i := range waits[1:] {
		require.Equal(t, min(2*waits[i], 30*time.Second), waits[i+1])
	}
	require.Equal(t, 30*time.Second, waits[11])
	require.Equal(t, time.Second, b.Next(base.NoSpace(syscall.ENOSPC)), "writers wait for space")
}

// due is a store with a due compaction that fails until its edits succeed again.
func due(t *testing.T) *testStore {
	st := newTestStore(t, nil)
	st.fault(errors.New("broken"))
	for range 4 {
		st.put(0, numbered(0, 10)...)
	}
	return st
}

func (st *testStore) backsOff() bool {
	st.Scheduler.mu.Lock()
	defer st.Scheduler.mu.Unlock()
	return st.state.counts[modeBackoff] > 0
}

func (st *testStore) lastBackoff() time.Duration {
	st.Scheduler.mu.Lock()
	defer st.Scheduler.mu.Unlock()
	return st.outcome.backoff.wait
}

// The bug: one counter had the back-offs and the calls that held compactions back. A success in such a time did not
// count, and a failure in it could leave the counter raised for ever.
func TestAHoldDoesNotChangeABackoff(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, st *testStore) (end func()){
		"Hold": reasons[modeHeld], "Pause": reasons[modePaused],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, proceed := make(chan struct{}), make(chan struct{})
				st := due(t)
				st.onBegin = func(Info) { begun <- struct{}{}; <-proceed }
				end := func() {}
				attempt := func() { // a hold begins while a compaction runs
					<-begun
					held := make(chan func(), 1)
					go func() { held <- hold(t, st) }()
					synctest.Wait()
					proceed <- struct{}{}
					end = <-held
					synctest.Wait()
				}
				st.Schedule()
				attempt()
				require.Equal(t, 50*time.Millisecond, st.lastBackoff())
				require.True(t, st.backsOff())
				time.Sleep(time.Hour)
				require.False(t, st.backsOff(), "the back-off ends during the hold")
				st.fault(nil)
				end()
				attempt()
				require.Zero(t, st.lastBackoff(), "the success counts")
				require.Empty(t, st.files(0))
				require.NoError(t, st.Status().Err)
				end()
			})
		})
	}
}

// The bug: the goroutine of a failed compaction ended its back-off, after it had called the listener. A listener that
// ended the goroutine stopped all compactions.
func TestABackoffEndsThoughAListenerEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.onOutcome = func(err error) {
			if err != nil {
				runtime.Goexit()
			}
		}
		st.Schedule()
		synctest.Wait()
		require.Error(t, st.Status().Err)
		require.Len(t, st.files(0), 4)
		st.fault(nil)
		time.Sleep(time.Hour)
		require.Empty(t, st.files(0))
		require.NoError(t, st.Status().Err)
	})
}

// While an automatic compaction waits for its next attempt, one that a caller asks for does not.
func TestCompactDoesNotWaitForABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.Schedule()
		synctest.Wait()
		for range 5 { // a flush does not shorten it
			st.flush(numbered(0, 10)...)
			synctest.Wait()
		}
		require.Len(t, st.infos, 1)
		st.fault(nil)
		start := time.Now()
		require.NoError(t, st.Compact(t.Context(), nil, nil))
		require.Zero(t, time.Since(start))
		require.NoError(t, st.Status().Err, "a success of a caller counts")
		require.Empty(t, st.files(0))
	})
}

// Corruption needs no wait: the inputs are set aside, and the next choice is another one.
func TestTablesWithDamageAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		for range 3 {
			st.put(0, numbered(0, 10)...)
		}
		st.damage(st.put(0, numbered(0, 10)...))
		st.Schedule()
		synctest.Wait()
		s := st.Status()
		require.ErrorIs(t, s.ParkedErr, base.ErrCorruption)
		require.NoError(t, s.Err, "nothing that could fail is due any more")
		require.Equal(t, 4, s.ParkedTables)
		time.Sleep(time.Hour)
		require.Len(t, st.infos, 1)

		st.put(5, numbered(500, 510)...)
		require.NoError(t, st.Compact(t.Context(), []byte(testKey(500)), nil), "of other tables")
		require.NoError(t, st.Status().Err)
		v := st.RefVersion()
		defer v.Unref()
		require.ErrorIs(t, st.Stuck(v), base.ErrCorruption, "nothing can make room in level 0")
		require.ErrorContains(t, st.Compact(t.Context(), nil, []byte(testKey(1))), "Repair salvages their entries")
	})
}

// Tombstones of the last level are dropped once no snapshot sees what they hide.
func TestTheEndOfASnapshotStartsWhatWaitedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		closeIt := st.read()
		var entries []entry
		for i := range 200 {
			entries = append(entries, del(testKey(i)))
		}
		st.put(6, append(entries, set(testKey(300), ""))...)
		st.Schedule()
		synctest.Wait()
		st.SnapshotClosed() // another one
		synctest.Wait()
		require.Len(t, st.content(6), 201)
		closeIt()
		st.SnapshotClosed()
		synctest.Wait()
		require.Len(t, st.content(6), 1)
	})
}

// A panic of the comparer during a choice is not under a guard: it stops the Scheduler, and the store learns of it.
func TestAPanicOfTheComparerStopsTheScheduler(t *testing.T) {
	armed := false
	st := newTestStore(t, func(o *storeOptions) {
		cmp := *base.Bytewise
		cmp.Name = "panics"
		cmp.Compare = func(a, b []byte) int {
			if armed {
				panic("comparer")
			}
			return base.Bytewise.Compare(a, b)
		}
		o.Cmp, o.Tuning.Table.Comparer = &cmp, &cmp
	})
	for range 4 {
		st.put(0, numbered(0, 10)...)
	}
	armed = true
	st.Schedule()
	st.Wait()
	armed = false
	var p *base.PanicError
	require.ErrorAs(t, st.failed, &p)
	_, err := st.claim(t.Context(), pickLevel3)
	require.ErrorAs(t, err, &p)
}

// garbageVersion returns a version with a gibibyte of value tables, of which seven tenths are garbage.
func garbageVersion(t *testing.T) *manifest.Version {
	t.Helper()
	var ends [2][]byte
	for i, key := range []string{"a", "z"} {
		ends[i] = base.AppendInternalKey(nil, []byte(key), 1, base.KindSet)
	}
	e := &manifest.Edit{}
	for num := uint64(10); num < 20; num++ {
		f := manifest.NewFileMeta(num, 100<<20, ends[0], ends[1])
		f.SetValueBytes(100 << 20)
		e.Added = append(e.Added, manifest.LevelFile{Level: manifest.ValuesLevel, File: f})
		e.Values = append(e.Values, manifest.ValueDelta{ID: num, File: num, Live: 30 << 20})
	}
	v, err := manifest.New(manifest.SetOptions{Cmp: base.Bytewise}).Current().Apply(e)
	require.NoError(t, err)
	return v
}

// Writers are not slowed for garbage while nothing may collect it, and hear when that changes.
func TestGarbageSlowsWritersOnlyWhileItMayBeCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		v := garbageVersion(t)
		require.Positive(t, st.GarbageLoad(v))
		resume, err := st.Pause(t.Context())
		require.NoError(t, err)
		require.Zero(t, st.GarbageLoad(v))
		resume()
		require.Positive(t, st.GarbageLoad(v))
		require.Empty(t, st.ended)
		st.noteCollection(base.NoSpace(syscall.ENOSPC))
		require.Zero(t, st.GarbageLoad(v))
		require.Len(t, st.ended, 1)
		time.Sleep(time.Second) // of the test's own clock
		require.Len(t, st.ended, 2)
		require.Positive(t, st.GarbageLoad(v))
	})
}

// Nobody waits for the collection of a value table that was set aside.
func TestADamagedValueTableIsNoReasonToFailWrites(t *testing.T) {
	st := newTestStore(t, nil)
	v := garbageVersion(t)
	values, damage := v.ValueTableOf(10), base.Corruptf("value table", -1, "it is damaged")
	st.mu.Lock()
	st.outcome.park([]*manifest.FileMeta{values}, damage)
	st.mu.Unlock()
	empty := st.set.Current()
	require.NoError(t, st.Stuck(empty))
	require.Equal(t, 1, st.Status().ParkedTables)
	require.ErrorIs(t, st.Status().ParkedErr, base.ErrCorruption)
	st.mu.Lock()
	st.outcome.park([]*manifest.FileMeta{manifest.NewFileMeta(7, 1, nil, nil)}, damage)
	st.mu.Unlock()
	require.ErrorIs(t, st.Stuck(empty), base.ErrCorruption)
}

// The bug: an entry that is no reference to a value ended a merge with an error that named no file.
func TestAnErrorOfAnEntryNamesTheInputs(t *testing.T) {
	c := &pick.Compaction{Inputs: []*manifest.FileMeta{{Num: 5}, {Num: 6}}}
	err := inInputs(base.Corruptf("data block", -1, "no reference"), c)
	require.ErrorContains(t, err, "000005.ldb or 000006.ldb")
	require.True(t, base.IsUnreadable(err))
	located := base.InFile(base.Corruptf("data block", -1, "no reference"), "000006.ldb", 0)
	require.Equal(t, located, inInputs(located, c))
}
