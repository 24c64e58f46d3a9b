package compact

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
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
	require.ErrorAs(t, result.Err(st.claim(t.Context(), pickLevel3)), &p)
}

// garbageVersion returns a version with a gibibyte of value tables, of which seven tenths are garbage.
func garbageVersion(t *testing.T) *version.Version {
	t.Helper()
	var ends [2][]byte
	for i, key := range []string{"a", "z"} {
		ends[i] = base.AppendInternalKey(nil, []byte(key), 1, base.KindSet)
	}
	var e version.Change
	for num := uint64(10); num < 20; num++ {
		f := version.NewFileMeta(num, 100<<20, ends[0], ends[1])
		f.SetValueBytes(100 << 20)
		e.Added = append(e.Added, version.LevelFile{Level: version.ValuesLevel, File: f})
		e.Values = append(e.Values, version.ValueDelta{ID: num, File: num, Live: 30 << 20})
	}
	v := result.Of(version.New(base.Bytewise, new(version.Owner)).Apply(e))(t)
	return v
}

// Writers are not slowed for garbage while nothing may collect it, and hear when that changes.
func TestGarbageSlowsWritersOnlyWhileItMayBeCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		v := garbageVersion(t)
		require.Positive(t, st.GarbageLoad(v))
		resume := result.Of(st.Pause(t.Context()))(t)
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
	st.outcome.park([]*version.FileMeta{values}, damage)
	st.mu.Unlock()
	empty := st.set.Current()
	require.NoError(t, st.Stuck(empty))
	require.Equal(t, 1, st.Status().ParkedTables)
	require.ErrorIs(t, st.Status().ParkedErr, base.ErrCorruption)
	st.mu.Lock()
	st.outcome.park([]*version.FileMeta{version.NewFileMeta(7, 1, nil, nil)}, damage)
	st.mu.Unlock()
	require.ErrorIs(t, st.Stuck(empty), base.ErrCorruption)
}

// The bug: an entry that is no reference to a value ended a merge with an error that named no file.
func TestAnErrorOfAnEntryNamesTheInputs(t *testing.T) {
	c := &pick.Compaction{Inputs: []*version.FileMeta{{Num: 5}, {Num: 6}}}
	err := inInputs(base.Corruptf("data block", -1, "no reference"), c)
	require.ErrorContains(t, err, "000005.ldb or 000006.ldb")
	require.True(t, base.IsUnreadable(err))
	located := base.InFile(base.Corruptf("data block", -1, "no reference"), "000006.ldb", 0)
	require.Equal(t, located, inInputs(located, c))
}

// Compact rewrites all tables of its range and no others, and also those that are only moved down.
func TestCompactRewritesItsRange(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) { o.Tuning.Filter = testFilter })
	resume, err := st.Pause(t.Context()) // no other compaction begins
	require.NoError(t, err)
	defer resume()
	st.put(6, set("a", "old"), set("c", "old"))
	far := st.put(6, set("x", "drop"), set("z", "raise"))
	st.put(3, set("m", "drop"), set("n", "raise"))
	st.put(0, del("a"), set("b", "raise"))
	require.NoError(t, st.Compact(t.Context(), nil, []byte("p")))
	require.Equal(t, []string{"b@0=RAISE", "c@0=old", "n@0=RAISE", "x@3=drop", "z@4=raise"}, st.content(6))
	require.Contains(t, st.files(6), far)
	require.NoError(t, st.Compact(t.Context(), []byte("p"), nil))
	require.Equal(t, []string{"b@0=RAISE", "c@0=old", "n@0=RAISE", "z@0=RAISE"}, st.content(6))
	c := st.Counters()
	require.EqualValues(t, 2, c.ValuesDropped)
	require.Positive(t, c.TrivialMoves)
}

// Whenever Compact begins a compaction, a table with a key after all others is added to that level. Compact ends all
// the same.
func TestCompactEndsAlthoughWritesContinue(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) { o.Tuning.L0Trigger = 1000 })
	st.put(0, numbered(0, 500)...)
	st.put(0, numbered(0, 500)...)
	const most = 200
	added := 0
	st.onBegin = func(i Info) {
		if added++; added < most {
			st.put(i.InputLevel, set(testKey(5000+added), ""))
		}
	}
	require.NoError(t, st.Compact(t.Context(), nil, nil))
	require.Positive(t, added)
	require.Less(t, added, most)
}

// A caller that gives up changes nothing, wherever it waits.
func TestCallersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, func(o *storeOptions) { o.Tuning.Filter = testFilter })
		st.put(0, set("a", "keep"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		release := st.Hold()
		require.ErrorIs(t, st.Compact(ctx, nil, nil), context.DeadlineExceeded)
		release()
		require.Len(t, st.files(0), 1)

		proceed := make(chan struct{})
		st.onBegin = func(Info) { <-proceed }
		done := make(chan error, 3)
		go func() { done <- st.Compact(context.Background(), nil, nil) }()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, st.Compact(ctx, nil, nil), context.DeadlineExceeded, "it waits for the filter of an earlier one")
		go func() { done <- st.Compact(context.Background(), nil, nil) }()
		synctest.Wait()
		st.Close()
		require.Equal(t, base.ErrClosed, <-done)
		close(proceed)
		require.Equal(t, base.ErrClosed, <-done)
	})
}

// A merge that its caller gives up leaves no tables, and is no failure of the store.
func TestAMergeThatIsGivenUpChangesNothing(t *testing.T) {
	st := newTestStore(t, nil)
	st.put(0, numbered(0, 3000)...)
	st.put(0, numbered(0, 3000)...)
	ctx, cancel := context.WithCancel(t.Context())
	st.onBegin = func(Info) { cancel() }
	require.ErrorIs(t, st.Compact(ctx, nil, nil), context.Canceled)
	require.Len(t, st.files(0), 2)
	require.Empty(t, st.outcomes)
	require.Empty(t, st.strayTables())
}

// A compaction of two tables may write one that spans both. A table that another compaction put between them meanwhile
// would overlap it.
func TestACompactionBetweenTheInputsOfAnotherWaits(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) { o.Tuning.MaxConcurrent = 2 })
	st.put(5, set("a", ""))
	st.put(5, set("z", ""))
	spanning := st.claimFiles(5, 6)
	st.put(0, set("m", ""))
	between := func(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
		return pick.From(v).OfFiles(0, 6, v.Levels[0].Files, ManualStep, o)
	}
	st.Scheduler.mu.Lock()
	c, busy := between(st.set.Current(), st.pickOptions())
	st.Scheduler.mu.Unlock()
	require.Nil(t, c)
	require.True(t, busy)
	result := make(chan *pick.Compaction)
	go func() {
		c, err := st.claim(context.Background(), between)
		if err != nil {
			c = nil
		}
		result <- c
	}()
	require.NoError(t, st.compactClaimed(t.Context(), spanning))
	c = <-result
	require.NotNil(t, c)
	require.NoError(t, st.compactClaimed(t.Context(), c))
	require.Equal(t, []string{"a@0=", "m@0=", "z@0="}, st.content(6))
}

// A load goes to level 0 if it overlaps that. If that would fill the level, what overlaps is compacted first.
func TestLoadsMakeRoomInLevel0(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) { o.Tuning.L0Trigger = 2 })
	file := func(num uint64, from, to string) *version.FileMeta {
		return version.NewFileMeta(num, 1000, base.AppendInternalKey(nil, []byte(from), 100, base.KindSet), base.AppendInternalKey(nil, []byte(to), 100, base.KindSet))
	}
	load := []*version.FileMeta{file(1001, "a", "c"), file(1002, "d", "f"), file(1003, "x", "z")}
	st.put(0, set("b", "1"), set("e", "1"))
	levels := func() (all []int) {
		release := st.Hold()
		defer release()
		for _, p := range st.Place(load) {
			all = append(all, p.Level)
		}
		return all
	}
	require.Equal(t, []int{0, 0, 6}, levels())
	require.NoError(t, st.ClearLevel0(t.Context(), load[:1]), "one table is not too many")
	require.Len(t, st.files(0), 1)
	require.NoError(t, st.ClearLevel0(t.Context(), load))
	require.Empty(t, st.files(0))
	require.NotContains(t, levels(), 0)
}

// For iterators that step over many tombstones, one compaction of level 0 does not wait for more tables. It may come
// back in half a second.
func TestReliefOfLevel0ComesOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		schedule := func() {
			st.put(0, set("a", ""), set("b", ""))
			st.Schedule()
			synctest.Wait()
		}
		schedule()
		require.Len(t, st.files(0), 1, "one table is not too many")
		require.True(t, st.CanRelieve())
		st.Relieve()
		require.False(t, st.CanRelieve(), "it is due")
		schedule()
		require.Empty(t, st.files(0))
		require.False(t, st.CanRelieve(), "so soon")
		time.Sleep(reliefPause)
		require.True(t, st.CanRelieve())

		st.Relieve()
		broken := errors.New("broken")
		st.fault(broken)
		schedule()
		require.ErrorIs(t, st.Status().Err, broken)
		st.fault(nil)
		time.Sleep(time.Hour)
		require.Empty(t, st.files(0), "a failed one is due again")
	})
}

// Reserved tables are used by nothing else, and Wait waits for their release.
func TestReservedTablesAreNotCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		for range 4 {
			st.put(0, set("a", ""), set("b", ""))
		}
		v, files, release, err := st.Reserve(func(v *version.Version) []*version.FileMeta { return v.Levels[0].Files[:1] })
		require.NoError(t, err)
		require.Len(t, files, 1)
		v.Unref()
		st.Schedule()
		done := make(chan error, 1)
		go func() { done <- st.compactLevel(context.Background(), 0, nil, nil) }()
		synctest.Wait()
		require.Empty(t, done, "it waits for the table")
		require.Len(t, st.files(0), 4)
		release()
		require.NoError(t, <-done)
		synctest.Wait()
		require.Empty(t, st.files(0))

		v, _, release, err = st.Reserve(func(v *version.Version) []*version.FileMeta { return nil })
		require.NoError(t, err)
		v.Unref()
		st.Close()
		waited := make(chan struct{})
		go func() { st.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			require.Fail(t, "a reservation is in effect")
		default:
		}
		release()
		release()
		<-waited
		_, _, _, err = st.Reserve(nil)
		require.Equal(t, base.ErrClosed, err)
	})
}

// The edit of a compaction can fail after its tables are written.
func TestAFailedEditLeavesTheTables(t *testing.T) {
	st := newTestStore(t, nil)
	st.put(0, numbered(0, 100)...)
	st.put(0, numbered(0, 100)...)
	broken := errors.New("broken")
	st.fault(broken)
	require.ErrorIs(t, st.Compact(t.Context(), nil, nil), broken)
	require.ErrorIs(t, st.Status().Err, broken)
	require.Len(t, st.files(0), 2)
	require.Empty(t, st.strayTables())
	st.fault(nil)
	require.NoError(t, st.Compact(t.Context(), nil, nil))
	require.NoError(t, st.Status().Err)
	require.Len(t, st.content(6), 100)
}
