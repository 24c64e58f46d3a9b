package prefetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// coldFile is a file that reports what of it is in the page cache, and keeps what is requested of it.
type coldFile struct {
	vfs.File
	cached           int64
	evicted, unknown bool
	examined         int
	requested        [][2]int64 // offset and size
}

func (f *coldFile) Resident(_, _ int64) (int64, bool, bool) {
	f.examined++
	return f.cached, f.evicted, !f.unknown
}

func (f *coldFile) Prefetch(off, n int64) { f.requested = append(f.requested, [2]int64{off, n}) }

const size = 100_000 // of a table

// store has a clock that moves with the reads, and makes requests at once.
type store struct {
	requests *Requests
	now      int64
}

func newStore() *store {
	s := new(store)
	s.requests = &Requests{clock: func() int64 { return s.now }, start: func(work func()) { work() }}
	return s
}

func (s *store) open(f vfs.File) *Demand {
	d := new(Demand)
	d.Begin(s.requests, f)
	return d
}

// read counts n reads of a block, and lets the time pass before each.
func (s *store) read(d *Demand, n int, wait time.Duration) {
	for i := range n {
		s.now += int64(wait)
		d.Count(uint64(i*7919%size), size)
	}
}

func TestATableThatIsReadOftenIsRequestedOnce(t *testing.T) {
	s, f := newStore(), &coldFile{}
	d := s.open(f)
	s.read(d, afterBlocks-1, time.Millisecond)
	require.Zero(t, f.examined)
	s.read(d, 1, time.Millisecond)
	require.Equal(t, [][2]int64{{0, size}}, f.requested)
	f.cached = size
	s.read(d, 100*afterBlocks, time.Millisecond)
	require.Equal(t, 1, f.examined, "it is left alone for a while")
	s.read(d, 1000*afterBlocks, time.Millisecond)
	require.Equal(t, 2, f.examined)
	tables, bytes := s.requests.Requested()
	require.Equal(t, []uint64{1, size}, []uint64{tables, bytes})
}

func TestATableIsNotRequestedWithoutNeed(t *testing.T) {
	for name, test := range map[string]struct {
		file     coldFile
		wait     time.Duration
		examined int
	}{
		"its blocks are read slowly":        {coldFile{}, time.Second / (afterBlocks - 1), 0},
		"half of it is in the page cache":   {coldFile{cached: size / 2}, time.Millisecond, 1},
		"the same, and parts were evicted":  {coldFile{cached: size / 2, evicted: true}, time.Millisecond, 1},
		"the system cannot say what it has": {coldFile{unknown: true}, time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			s.read(s.open(&test.file), 10*afterBlocks, test.wait)
			require.Equal(t, test.examined, test.file.examined)
			require.Empty(t, test.file.requested)
			require.Zero(t, s.requests.pausedUntil.Load())
		})
	}
}

func TestNoTableIsRequestedForAMinuteAfterAnEviction(t *testing.T) {
	s, evicted, other := newStore(), &coldFile{evicted: true}, &coldFile{}
	first, second := s.open(evicted), s.open(other)
	s.read(first, afterBlocks, time.Millisecond)
	require.Equal(t, 1, evicted.examined)
	s.read(second, afterBlocks, time.Millisecond)
	require.Zero(t, other.examined)
	s.now += pause
	s.read(second, 2*afterBlocks, time.Millisecond)
	require.Len(t, other.requested, 1)
	require.Empty(t, evicted.requested)
}

func TestNoTableIsRequestedAgainWhileItIsOpen(t *testing.T) {
	s, f, other := newStore(), &coldFile{}, &coldFile{}
	d, second := s.open(f), s.open(other)
	s.read(d, afterBlocks, time.Millisecond)
	require.Len(t, f.requested, 1)
	for range 5 { // the system never has it
		s.read(d, 1000*afterBlocks, time.Millisecond)
	}
	require.Len(t, f.requested, 1)
	require.Greater(t, f.examined, 1)
	require.Positive(t, s.requests.pausedUntil.Load(), "memory is short")
	s.now = s.requests.pausedUntil.Load() - int64(time.Second)
	s.read(second, 2*afterBlocks, time.Millisecond)
	require.Zero(t, other.examined)
}

// A large table is requested in parts, each by the reads of its own blocks or of others.
func TestALargeTableIsRequestedInParts(t *testing.T) {
	s, f := newStore(), &coldFile{}
	d := s.open(f)
	const end = 3*maxBytes - 1000
	for _, offset := range []uint64{0, maxBytes, end - 1} {
		for range afterBlocks {
			d.Count(offset, end)
		}
		s.now += again / 2
		for range afterBlocks { // the time since the last ones was too long
			d.Count(offset, end)
		}
	}
	require.Equal(t, [][2]int64{{0, maxBytes}, {maxBytes, maxBytes}, {2 * maxBytes, maxBytes - 1000}}, f.requested)
}

// Lookups do not wait for requests. If too many are waiting, a table is examined again after as many reads.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	s, f, other := newStore(), &coldFile{}, &coldFile{}
	var work func()
	s.requests.start = func(w func()) { work = w }
	for range maxQueued {
		require.True(t, s.requests.enqueue(request{f, 0, 1}))
	}
	d := s.open(other)
	s.read(d, afterBlocks, 0)
	require.Equal(t, 1, other.examined)
	require.Empty(t, f.requested)
	work()
	require.Len(t, f.requested, maxQueued)
	s.read(d, afterBlocks, 0)
	require.Equal(t, 2, other.examined)
	work()
	require.Len(t, other.requested, 1)
	require.Len(t, f.requested, maxQueued)
	require.Nil(t, s.requests.queue)
}

// gateFile is a file whose requests wait for its gate.
type gateFile struct {
	coldFile
	entered, gate chan struct{}
}

func (f *gateFile) Prefetch(off, n int64) {
	f.entered <- struct{}{}
	<-f.gate
	f.coldFile.Prefetch(off, n)
}

// Close waits for the request that is being made, discards the others, and prevents later ones.
func TestNoRequestIsMadeAfterClose(t *testing.T) {
	f := &gateFile{entered: make(chan struct{}, 1), gate: make(chan struct{})}
	r := New(nil)
	for range 5 {
		require.True(t, r.enqueue(request{f, 0, 1}))
	}
	<-f.entered
	closed := make(chan struct{})
	go func() { r.Close(); close(closed) }()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.closed
	}, time.Minute, time.Millisecond)
	require.False(t, r.enqueue(request{f, 0, 1}))
	select {
	case <-closed:
		require.Fail(t, "Close did not wait")
	default:
	}
	close(f.gate)
	<-closed
	require.Len(t, f.requested, 1)
	r.Close()
	require.False(t, r.enqueue(request{f, 0, 1}))
}

// A file that panics reaches the guard, once, and Close does not wait for what cannot happen any more.
func TestAPanicOfARequestEndsTheRequests(t *testing.T) {
	values := make(chan any, 2)
	r := New(func(work func()) {
		defer func() { values <- recover() }()
		work()
	})
	require.True(t, r.enqueue(request{nil, 0, 1}))
	require.ErrorContains(t, (<-values).(error), "nil pointer")
	for range maxQueued {
		require.True(t, r.enqueue(request{nil, 0, 1}))
	}
	require.False(t, r.enqueue(request{nil, 0, 1}))
	r.Close()
	require.Empty(t, values)
}

func TestReadsAreNotCountedWithoutRequestsOrAPrefetcher(t *testing.T) {
	f := &coldFile{}
	none, plain := (&store{}).open(f), newStore().open(f.File)
	for range 2 * afterBlocks {
		none.Count(0, size)
		plain.Count(0, size)
	}
	require.Zero(t, f.examined)
	require.Zero(t, none.blocks.Load()+plain.blocks.Load())
}
