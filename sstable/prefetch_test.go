package sstable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// coldFile is a file that reports what of it is in the page cache, and counts what is asked of it.
type coldFile struct {
	*memFile
	cached           int64
	evicted, unknown bool
	examined         int
	requested        []blockSpan // offset and size only
}

func (f *coldFile) Resident(_, _ int64) (int64, bool, bool) {
	f.examined++
	return f.cached, f.evicted, !f.unknown
}

func (f *coldFile) Prefetch(off, n int64) {
	f.requested = append(f.requested, blockSpan{offset: uint64(off), size: uint64(n)})
}

// coldTables opens tables of the same bytes, without a block cache, and with a clock that stands still.
type coldTables struct {
	t        *testing.T
	now      int64
	prefetch *Prefetch
	keys     [][]byte
	data     []byte
}

func newColdTables(t *testing.T, data []byte, es entries) *coldTables {
	c := &coldTables{t: t, data: data}
	c.prefetch = &Prefetch{clock: func() int64 { return c.now }, start: func(work func()) { work() }}
	for _, e := range es {
		c.keys = append(c.keys, base.UserKey(e.Key))
	}
	return c
}

func (c *coldTables) open(f *coldFile) *Reader {
	f.memFile = &memFile{data: c.data}
	r, err := Open(f, ReaderOptions{Prefetch: c.prefetch})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = r.Close() })
	return r
}

// read looks up n keys, each of which reads a block, and lets the time pass before each.
func (c *coldTables) read(r *Reader, n int, pause time.Duration) {
	for i := range n {
		c.now += int64(pause)
		res, err := get(r, string(c.keys[i*7919%len(c.keys)]), base.MaxSeq)
		require.NoError(c.t, err)
		require.True(c.t, res.Found && res.BlockFromDisk)
	}
}

func TestATableThatIsReadOftenIsRequestedOnce(t *testing.T) {
	es := benchEntries(2000)
	c := newColdTables(t, buildTable(t, WriterOptions{}, es), es)
	f := &coldFile{}
	r := c.open(f)
	c.read(r, prefetchAfter-1, time.Millisecond)
	require.Zero(t, f.examined)
	c.read(r, 1, time.Millisecond)
	require.Equal(t, []blockSpan{{size: uint64(len(c.data)) - footerLen}}, f.requested)
	f.cached = int64(len(c.data))
	c.read(r, 100*prefetchAfter, time.Millisecond)
	require.Equal(t, 1, f.examined, "it is left alone for a while")
	c.read(r, 1000*prefetchAfter, time.Millisecond)
	require.Equal(t, 2, f.examined)
	tables, bytes := c.prefetch.Requested()
	require.Equal(t, []uint64{1, uint64(len(c.data)) - footerLen}, []uint64{tables, bytes})
}

func TestATableIsNotRequestedWithoutNeed(t *testing.T) {
	es := benchEntries(2000)
	c := newColdTables(t, buildTable(t, WriterOptions{}, es), es)
	for name, test := range map[string]struct {
		file     coldFile
		pause    time.Duration
		examined int
	}{
		"its blocks are read slowly":        {coldFile{}, time.Second / (prefetchAfter - 1), 0},
		"half of it is in the page cache":   {coldFile{cached: int64(len(c.data)) / 2}, time.Millisecond, 1},
		"the same, and parts were evicted":  {coldFile{cached: int64(len(c.data)) / 2, evicted: true}, time.Millisecond, 1},
		"the system cannot say what it has": {coldFile{unknown: true}, time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.read(c.open(&test.file), 10*prefetchAfter, test.pause)
			require.Equal(t, test.examined, test.file.examined)
			require.Empty(t, test.file.requested)
			require.Zero(t, c.prefetch.pausedUntil.Load())
		})
	}
}

func TestNoTableIsRequestedForAMinuteAfterAnEviction(t *testing.T) {
	es := benchEntries(2000)
	c := newColdTables(t, buildTable(t, WriterOptions{}, es), es)
	evicted, other := &coldFile{evicted: true}, &coldFile{}
	first, second := c.open(evicted), c.open(other)
	c.read(first, prefetchAfter, time.Millisecond)
	require.Equal(t, 1, evicted.examined)
	c.read(second, prefetchAfter, time.Millisecond)
	require.Zero(t, other.examined)
	c.now += prefetchPause
	c.read(second, 2*prefetchAfter, time.Millisecond)
	require.Len(t, other.requested, 1)
	require.Empty(t, evicted.requested)
}

func TestNoTableIsRequestedAgainWhileItIsOpen(t *testing.T) {
	es := benchEntries(2000)
	c := newColdTables(t, buildTable(t, WriterOptions{}, es), es)
	f, other := &coldFile{}, &coldFile{}
	r, second := c.open(f), c.open(other)
	c.read(r, prefetchAfter, time.Millisecond)
	require.Len(t, f.requested, 1)
	for range 5 { // the system never has it
		c.read(r, 1000*prefetchAfter, time.Millisecond)
	}
	require.Len(t, f.requested, 1)
	require.Greater(t, f.examined, 1)
	require.Positive(t, c.prefetch.pausedUntil.Load(), "memory is short")
	c.now = c.prefetch.pausedUntil.Load() - int64(time.Second)
	c.read(second, 2*prefetchAfter, time.Millisecond)
	require.Zero(t, other.examined)
}

// A large table is requested in parts, each by the reads of its own blocks or of others.
func TestALargeTableIsRequestedInParts(t *testing.T) {
	f := &coldFile{}
	c := &coldTables{}
	c.prefetch = &Prefetch{clock: func() int64 { return c.now }, start: func(work func()) { work() }}
	var d demand
	d.begin(c.prefetch, f)
	const end = 3*maxPrefetch - 1000
	for _, offset := range []uint64{0, maxPrefetch, end - 1} {
		for range prefetchAfter {
			d.count(offset, end)
		}
		c.now += prefetchAgain / 2
		for range prefetchAfter { // the time since the last ones was too long
			d.count(offset, end)
		}
	}
	require.Equal(t, []blockSpan{{size: maxPrefetch}, {offset: maxPrefetch, size: maxPrefetch},
		{offset: 2 * maxPrefetch, size: maxPrefetch - 1000}}, f.requested)
}

// Lookups do not wait for requests. If too many are waiting, a table is examined again after as many reads.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	f, other := &coldFile{}, &coldFile{}
	var work func()
	p := &Prefetch{clock: func() int64 { return 0 }, start: func(w func()) { work = w }}
	for range maxQueued {
		require.True(t, p.enqueue(request{f, 0, 1}))
	}
	var d demand
	d.begin(p, other)
	for range prefetchAfter {
		d.count(0, 100)
	}
	require.Equal(t, 1, other.examined)
	require.Empty(t, f.requested)
	work()
	require.Len(t, f.requested, maxQueued)
	for range prefetchAfter {
		d.count(0, 100)
	}
	require.Equal(t, 2, other.examined)
	work()
	require.Len(t, other.requested, 1)
	require.Len(t, f.requested, maxQueued)
	require.Nil(t, p.queue)
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
	p := NewPrefetch(nil)
	for range 5 {
		require.True(t, p.enqueue(request{f, 0, 1}))
	}
	<-f.entered
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	}, time.Minute, time.Millisecond)
	require.False(t, p.enqueue(request{f, 0, 1}))
	select {
	case <-closed:
		require.Fail(t, "Close did not wait")
	default:
	}
	close(f.gate)
	<-closed
	require.Len(t, f.requested, 1)
	p.Close()
	require.False(t, p.enqueue(request{f, 0, 1}))
}

// A file that panics reaches the guard, once, and Close does not wait for what cannot happen any more.
func TestAPanicOfARequestEndsTheRequests(t *testing.T) {
	values := make(chan any, 2)
	p := NewPrefetch(func(work func()) {
		defer func() { values <- recover() }()
		work()
	})
	require.True(t, p.enqueue(request{nil, 0, 1}))
	require.ErrorContains(t, (<-values).(error), "nil pointer")
	for range maxQueued {
		require.True(t, p.enqueue(request{nil, 0, 1}))
	}
	require.False(t, p.enqueue(request{nil, 0, 1}))
	p.Close()
	require.Empty(t, values)
}

func TestReadsAreNotCountedWithoutAPrefetchOrAPrefetcher(t *testing.T) {
	f := &coldFile{}
	var none, plain demand
	none.begin(nil, f)
	plain.begin(NewPrefetch(nil), f.memFile)
	for range 2 * prefetchAfter {
		none.count(0, 100)
		plain.count(0, 100)
	}
	require.Zero(t, f.examined)
	require.Zero(t, none.blocks.Load()+plain.blocks.Load())
}
