package commit

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// Some writers become the leader by swapping the state, others from the queue. There are always
// both kinds here, so they take turns in every order.
func TestSingleAndQueuedWritersAllGetTheirTurn(t *testing.T) {
	const writers, each = 6, 300
	s := open(t, config{})
	s.flushAlways()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				n := i*writers + w
				d := []Durability{WithSystem, InBuffer, WithSystem, OnDisk}[i%4]
				var err error
				if i%16 == 0 {
					err = s.Apply(batchOf(n), d, nil)
				} else {
					err = s.put(n, d)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	s.requireKeys(0, writers*each)
	require.EqualValues(t, writers*each, s.Status().Batches)
	require.EqualValues(t, idle, s.queue.state.Load(), "no writer is left in the queue")
	require.NoError(t, s.shut())
	require.Len(t, logged(t, s.mem), writers*each)
}

func TestAGroupIsOneRecordWithOneSync(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	var results []<-chan error
	for i := range 8 {
		d := []Durability{OnDisk, WithSystem, InBuffer}[i%3]
		results = append(results, s.begin(2*i+1, func() error { return s.put(i, d) }))
		results = append(results, s.begin(2*i+2, func() error { return s.Apply(batchOf(), OnDisk, nil) }))
	}
	before := s.Status()
	release()
	for _, r := range results {
		require.NoError(t, <-r)
	}
	after := s.Status()
	require.EqualValues(t, 1, after.LogSyncs-before.LogSyncs)
	require.EqualValues(t, 8, after.Batches-before.Batches, "an empty batch is not counted")
	requireLogged(t, s.mem.Crash(), upTo(8)...)
	s.requireKeys(0, 8)
	require.EqualValues(t, 18, s.Synced())
}

// A conflict in a group leaves the other writes of the group as they are.
func TestAConflictDoesNotDisturbItsGroup(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	refused := errors.New("refused")
	first := s.begin(1, func() error {
		return s.Apply(batchOf(1), OnDisk, func([]*batch.Batch) error { return refused })
	})
	var before []int
	second := s.begin(2, func() error {
		return s.Apply(batchOf(0), OnDisk, func(earlier []*batch.Batch) error {
			for _, b := range earlier {
				before = append(before, b.Len())
			}
			return nil
		})
	})
	release()
	require.Equal(t, refused, <-first)
	require.NoError(t, <-second)
	require.Equal(t, []int{0}, before, "the writes of the first one are not there")
	s.requireKeys(0, 1)

	release = s.hold()
	first = s.begin(1, func() error {
		return s.Apply(batchOf(1), OnDisk, func([]*batch.Batch) error { return refused })
	})
	syncs := s.Status().LogSyncs
	release()
	require.Equal(t, refused, <-first)
	require.Equal(t, syncs, s.Status().LogSyncs, "a group without a write is not synced")
}

// A request leaves the queue only while no leader has begun with it.
func TestOnlyAWaitingRequestLeavesTheQueue(t *testing.T) {
	q := &queue{requests: newRequests()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	first, second := &request{wake: make(chan bool, 1), ctx: ctx}, &request{wake: make(chan bool, 1), ctx: ctx}
	q.waiting = []*request{first, second}
	first.wake <- true
	require.False(t, q.leave(first), "it leads")
	require.True(t, q.leave(second))
	require.Equal(t, context.Canceled, second.err)
	require.Equal(t, []*request{first}, q.waiting)
	require.False(t, q.leave(second), "it is not in the queue")
}

func TestAContextEndsTheWaitForALeader(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	ctx, cancel := context.WithCancel(t.Context())
	called := false
	left := s.begin(1, func() error { return s.Lead(ctx, func(*Leader) error { called = true; return nil }) })
	after := s.begin(2, func() error { return s.put(0, OnDisk) })
	cancel()
	require.Equal(t, context.Canceled, <-left)
	require.Equal(t, 1, s.waiting())
	release()
	require.NoError(t, <-after)
	require.False(t, called)
	s.requireKeys(0, 1)
}

func TestALeaderDoesNotWaitForWritersThatDoNotReturn(t *testing.T) {
	for d, want := range map[Durability]int{InBuffer: 0, WithSystem: 0, OnDisk: gatherYields} {
		q := &queue{waiting: []*request{{durability: d}}, expected: 1000}
		require.Equal(t, want, q.gather())
		q.expected = 1
		require.Zero(t, q.gather(), "all writers have returned")
	}
}

// With one processor, a writer that was started runs when the leader yields.
func TestALeaderWaitsForWritersThatReturn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	q := &queue{waiting: []*request{{durability: OnDisk}}, expected: 2}
	var returned sync.WaitGroup
	returned.Go(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waiting = append(q.waiting, &request{durability: OnDisk})
	})
	require.Less(t, q.gather(), gatherYields)
	returned.Wait()
	require.Len(t, q.waiting, 2)
}

func TestAGroupIsBounded(t *testing.T) {
	half := new(batch.Batch)
	half.Add(base.KindSet, key(0), make([]byte, maxGroupBytes/2))
	small, empty := batchOf(1), batchOf()
	alone := &request{alone: func() error { return nil }}
	write := func(b *batch.Batch) *request { return &request{batch: b} }
	for name, c := range map[string]struct {
		waiting []*request
		room    int
		want    int
	}{
		"small writes":                             {[]*request{write(small), write(small), write(small)}, 1 << 30, 3},
		"a function is alone":                      {[]*request{alone, write(small)}, 1 << 30, 1},
		"a function ends a group":                  {[]*request{write(small), alone, write(small)}, 1 << 30, 1},
		"at most a megabyte":                       {[]*request{write(half), write(half), write(half)}, 1 << 30, 1},
		"a small write after a large one":          {[]*request{write(half), write(small), write(half)}, 1 << 30, 2},
		"writes that need a new memtable":          {[]*request{write(half), write(small)}, 0, 2},
		"a sync does not wait for a memtable":      {[]*request{write(empty), write(small)}, 0, 1},
		"nor because it comes after a write":       {[]*request{write(small), write(empty), write(small)}, 0, 1},
		"a sync shares the group if there is room": {[]*request{write(empty), write(small), write(empty)}, 1 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queue{waiting: c.waiting}
			q.takeGroup(c.room)
			require.Len(t, q.group, c.want)
			require.Len(t, q.waiting, len(c.waiting)-c.want)
		})
	}
}

func TestShutWaitsForThoseThatQueueAndRefusesOthers(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	waits := s.begin(1, func() error { return s.put(0, OnDisk) })
	s.Refuse()
	s.BeginEnd()
	ended := s.begin(2, func() error { s.Shut(base.ErrClosed); return nil })
	require.Equal(t, base.ErrClosed, s.Apply(batchOf(1), WithSystem, nil))
	require.Equal(t, base.ErrClosed, s.put(1, WithSystem))
	release()
	require.Equal(t, base.ErrClosed, <-waits)
	require.NoError(t, <-ended)
	require.Equal(t, base.ErrClosed, s.Lead(t.Context(), func(*Leader) error { return nil }))
	_, err := s.CloseLog()
	require.NoError(t, err)
	require.Empty(t, logged(t, s.mem))
}
