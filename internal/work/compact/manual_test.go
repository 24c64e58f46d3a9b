package compact

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
)

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
	between := func(v *manifest.Version, o pick.Options) (*pick.Compaction, bool) {
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
	file := func(num uint64, from, to string) *manifest.FileMeta {
		return manifest.NewFileMeta(num, 1000, base.AppendInternalKey(nil, []byte(from), 100, base.KindSet), base.AppendInternalKey(nil, []byte(to), 100, base.KindSet))
	}
	load := []*manifest.FileMeta{file(1001, "a", "c"), file(1002, "d", "f"), file(1003, "x", "z")}
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

// Reserved tables are used by nothing else, and Wait waits for their release.
func TestReservedTablesAreNotCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		for range 4 {
			st.put(0, set("a", ""), set("b", ""))
		}
		v, files, release, err := st.Reserve(func(v *manifest.Version) []*manifest.FileMeta { return v.Levels[0].Files[:1] })
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

		v, _, release, err = st.Reserve(func(v *manifest.Version) []*manifest.FileMeta { return nil })
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
