// Package prefetch requests tables from the system as a whole when lookups read many of their blocks one by one.
package prefetch

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// Requests decides when the system should read a table into the page cache as a whole, for all tables of a store. A
// lookup reads one block. If the tables are not in the page cache, such as after a restart of the machine, each of
// these reads waits for the device, until every page of the tables was read on its own. (Files that are mapped are read
// ahead around each page fault, also if memory is too small to keep what was read.)
//
// The rule: when afterBlocks blocks of a table were read within a second, one at a time, and less than half of the
// table is in the page cache, the system is asked to read all of it. If it has evicted any of that table before, or
// does not have what was requested, memory is short instead, and no table is requested for a minute.
//
// So a table is requested at most once while it is open, and a store that does not fit in memory costs the device one
// more filling of that memory. (Not having what was requested also ends the requests on overlayfs, where the system
// says that it has nothing.) Blocks in the block cache are not counted, and a read of a file costs one addition.
//
// Looking up random ones of a million keys (29 tables) after the page cache was emptied took 63 µs for each of the
// first 4,000, 40 for the next 6,000 and 11 for the next 10,000; with this 42, 10 and 8. Of five million keys with
// memory for a third of the tables, 200,000 lookups read 157 MB more, an eighth, and took the same time.
//
// A request of 2 MiB takes the processor a millisecond, so lookups leave it to a goroutine, which ends when it has made
// all requests, or when Close is called. A nil Requests requests nothing. Any goroutine may use it.
type Requests struct {
	tables, bytes atomic.Uint64
	pausedUntil   atomic.Int64 // of the clock
	clock         func() int64 // nanoseconds
	start         func(func()) // starts the goroutine

	mu      sync.Mutex // guards the following
	queue   []request  // at most maxQueued
	working bool       // the goroutine runs, or ended with a panic, which ends the requests
	closed  bool

	running sync.WaitGroup // the goroutine; grows with mu held and closed false
}

// request is a part of a file that the system is to be asked for.
type request struct {
	file   vfs.Prefetcher
	off, n int64
}

const (
	// afterBlocks is the number of blocks. Reading 2 MiB took as long as 95 reads of a block on the device that was
	// measured, at most 43 on that of docs/performance.md (as LevelDB's reads there show), and takes less on disks.
	afterBlocks = 16
	within      = int64(time.Second)

	// maxBytes is the most that is requested at a time, in bytes: of a larger table, the part around the block that
	// was read last.
	maxBytes = 4 << 20
	// maxQueued is how many requests may wait for the goroutine. With more, tables are examined again later.
	maxQueued = 32

	// again is how long a table of up to maxBytes bytes is left alone after it was examined. A larger one is
	// examined more often, part by part. Examining 2 MiB in the page cache takes 23 µs.
	again = int64(10 * time.Second)
	// pause is how long all tables are left alone when memory is short.
	pause = int64(time.Minute)
)

// New returns Requests for the tables of a store. If guard is not nil, each goroutine calls it once with its
// work, which panics if the Prefetch method of a file does.
func New(guard func(work func())) *Requests {
	began := time.Now()
	p := &Requests{clock: func() int64 { return int64(time.Since(began)) }, start: base.Go}
	if guard != nil {
		p.start = func(work func()) { base.Go(func() { guard(work) }) }
	}
	return p
}

// Close discards the requests that wait, and returns when none is being made. There are none from then on.
func (p *Requests) Close() {
	p.mu.Lock()
	p.closed, p.queue = true, nil
	p.mu.Unlock()
	p.running.Wait()
}

// enqueue leaves a request to the goroutine. It returns false if too many are waiting.
func (p *Requests) enqueue(r request) bool {
	p.mu.Lock()
	if p.closed || len(p.queue) == maxQueued {
		p.mu.Unlock()
		return false
	}
	p.queue = append(p.queue, r)
	first := !p.working
	if first {
		p.working = true
		p.running.Add(1)
	}
	p.mu.Unlock()
	if first {
		p.start(p.work)
	}
	return true
}

// work makes requests until none is waiting.
func (p *Requests) work() {
	defer p.running.Done()
	for r, ok := p.take(); ok; r, ok = p.take() {
		r.file.Prefetch(r.off, r.n)
	}
}

// take returns the request that has waited longest. ok is false if there is none, and the goroutine must end.
func (p *Requests) take() (r request, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue, p.working = nil, false
		return r, false
	}
	r, p.queue = p.queue[0], p.queue[1:]
	return r, true
}

// Requested returns how often a table was requested, and how many bytes of these tables were not in the page cache.
func (p *Requests) Requested() (tables, bytes uint64) { return p.tables.Load(), p.bytes.Load() }

// Demand counts the blocks that are read from a table's file one at a time.
type Demand struct {
	requests  *Requests      // nil if there is none, or the file is no Prefetcher
	file      vfs.Prefetcher // the table's file
	blocks    atomic.Uint32
	since     atomic.Int64  // when blocks was last a multiple of afterBlocks
	next      atomic.Int64  // when the table may be examined again
	requested atomic.Uint64 // bytes of the table
}

// Begin prepares d for f, the file of a table that was just opened.
func (d *Demand) Begin(p *Requests, f vfs.File) {
	file, ok := f.(vfs.Prefetcher)
	if p == nil || !ok {
		return
	}
	d.requests, d.file = p, file
	d.since.Store(p.clock())
}

// Count counts the read of the block at offset in a table whose blocks end at end. The file must stay open meanwhile.
func (d *Demand) Count(offset, end uint64) {
	if d.requests != nil && d.blocks.Add(1)%afterBlocks == 0 {
		d.examine(offset, end)
	}
}

// examine requests the table if the rule says so.
//
//go:noinline
func (d *Demand) examine(offset, end uint64) {
	p := d.requests
	now := p.clock()
	next := d.next.Load()
	if now-d.since.Swap(now) > within || now < next || now < p.pausedUntil.Load() {
		return
	}
	from := offset - offset%maxBytes
	n := min(end-from, maxBytes)
	if !d.next.CompareAndSwap(next, now+int64(float64(again)*float64(n)/float64(end))) {
		return // another goroutine examines it
	}
	cached, evicted, ok := d.file.Resident(int64(from), int64(n))
	switch {
	case !ok:
		d.next.Store(math.MaxInt64) // the system cannot say
	case uint64(max(cached, 0)) >= n/2:
	case evicted || d.requested.Load()+n > end:
		p.pausedUntil.Store(now + pause)
	case !p.enqueue(request{d.file, int64(from), int64(n)}):
		d.next.Store(next)
	default:
		d.requested.Add(n)
		p.tables.Add(1)
		p.bytes.Add(n - uint64(max(cached, 0)))
	}
}
