package linearizability

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Workload is what the clients of a history do.
type Workload struct {
	Seed                       uint64
	Clients, Ops, Width, Count int  // Ops of each client; Count groups of Width keys
	Cut                        bool // the power is cut once
	// Transactions makes three operations in four a transaction that reads some keys of a group, one by one or by a
	// walk, and writes others.
	Transactions bool
	// Wipes makes one operation in forty the deletion of a range of groups, and one in forty the ingest or
	// the load of another range; more of them if the seed is even; see pins.
	Wipes bool
	// Leases makes half of the values that are written without a transaction expire at the next tick of the
	// clock. One operation in forty is a tick.
	Leases bool
}

// History is what was done and seen.
type History struct {
	Operations         []porcupine.Operation
	Flushes, Compacted int
	// Overlapping is how many operations had another one begin or end meanwhile.
	Overlapping int
}

// run is a history in the making.
type run struct {
	Workload
	clock    atomic.Int64
	written  atomic.Int64 // the last value that was given out
	answered atomic.Int64
	stop     atomic.Bool
	flushes  atomic.Int64
	merges   atomic.Int64
	epochs   atomic.Int64 // the clock of the database; see now
	ticks    sync.RWMutex // held for reading while leases are written
}

// pins reports whether snapshots and transactions pin what they read, as a compaction filter has them do. Then tables
// are removed and linked although some are open.
func (w *Workload) pins() bool { return w.Wipes && w.Seed%2 == 0 }

// Run has the clients work and returns their history.
func (w Workload) Run() (*History, error) {
	r := &run{Workload: w}
	rnd := rand.New(rand.NewPCG(w.Seed, 'l'))
	disk := vfs.NewMem()
	var operations []porcupine.Operation
	if w.Cut {
		goal := int64(rnd.IntN(w.Clients * w.Ops))
		before, after, err := r.runAndCut(disk, goal)
		if err != nil {
			return nil, err
		}
		operations, disk = before, after
	}
	rest, err := r.work(disk, nil)
	if err != nil {
		return nil, err
	}
	h := &History{Operations: append(operations, rest...), Flushes: int(r.flushes.Load()), Compacted: int(r.merges.Load())}
	for _, op := range h.Operations {
		if op.Return-op.Call > 1 {
			h.Overlapping++
		}
	}
	return h, nil
}

// runAndCut cuts the power when goal operations were answered. It returns the operations that count, and the disk.
func (r *run) runAndCut(disk *vfs.Mem, goal int64) ([]porcupine.Operation, *vfs.Mem, error) {
	var after *vfs.Mem
	var begun, ended int64
	operations, err := r.work(disk, func() {
		for r.answered.Load() < goal {
			runtime.Gosched()
		}
		begun = r.clock.Add(1)
		after = disk.Crash()
		ended = r.clock.Add(1)
		r.stop.Store(true)
	})
	r.stop.Store(false)
	var kept []porcupine.Operation
	for _, op := range operations {
		switch {
		case op.Return < begun:
			kept = append(kept, op)
		case op.Call < ended && op.Input.(input).write:
			in := op.Input.(input)
			in.reads = 0 // it may be lost, and then it is ordered last
			op.Input, op.Return = in, math.MaxInt64
			kept = append(kept, op)
		}
	}
	return kept, after, err
}

// work opens the database, has all clients work until they are done or stopped,
// and closes it. meanwhile, if not nil, runs concurrently.
//
//race:long
func (r *run) work(disk *vfs.Mem, meanwhile func()) ([]porcupine.Operation, error) {
	// A write to a file lets other goroutines run: on two processors an operation in memory would
	// seldom be interrupted otherwise.
	yielding := wrap.NewFaulty(disk, func(wrap.Op) *wrap.Fault { runtime.Gosched(); return nil })
	o := &db.Options{
		FS: yielding, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 256},
		Compaction: db.CompactionOptions{MaxLevelBase: 8 << 10, L0Trigger: 2, MaxConcurrent: 2},
		Limits:     db.LimitOptions{ManifestSize: 16 << 10}, Cache: db.CacheOptions{Size: 16 << 10, MaxOpenFiles: 10},
		EventListener: &db.EventListener{
			FlushEnd:      func(db.FlushInfo) { r.flushes.Add(1) },
			CompactionEnd: func(db.CompactionInfo) { r.merges.Add(1) },
		},
	}
	if r.pins() {
		o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { return value, true }
	}
	if r.Leases {
		o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{nil}, Clock: r.now}
	}
	d, err := db.Open("db", o)
	if err != nil {
		return nil, err
	}
	clients := make([]client, r.Clients)
	var group sync.WaitGroup
	for i := range clients {
		c := &clients[i]
		*c = client{run: r, id: i, d: d, disk: disk, rnd: rand.New(rand.NewPCG(r.Seed, uint64(r.clock.Load())<<8|uint64(i)))}
		group.Go(func() {
			for range r.Ops {
				if r.stop.Load() || !c.step() {
					return
				}
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	group.Wait()
	var operations []porcupine.Operation
	for i := range clients {
		operations = append(operations, clients[i].done...)
		if clients[i].err != nil {
			err = clients[i].err
		}
	}
	if closing := d.Close(); err == nil {
		err = closing
	}
	return operations, err
}

// client is one goroutine's part.
type client struct {
	*run
	id   int
	d    *db.DB
	disk *vfs.Mem
	rnd  *rand.Rand
	done []porcupine.Operation
	err  error
}

// step does one operation, notes it, and returns whether it succeeded.
func (c *client) step() bool {
	if c.Wipes {
		others := 40
		if c.pins() {
			others = 12
		}
		switch c.rnd.IntN(others) {
		case 0:
			return c.wipe()
		case 1:
			return c.bring()
		}
	}
	if c.Leases && c.rnd.IntN(40) == 0 {
		return c.tick()
	}
	in := input{group: c.rnd.IntN(c.Count), mask: uint8(1 + c.rnd.IntN(1<<c.Width-1)), write: c.rnd.IntN(2) == 0}
	var act func() (values, error)
	switch {
	case c.Transactions && (c.rnd.IntN(4) > 0 || c.Leases && !in.write):
		act = c.transaction(&in)
	case in.write:
		act = c.writing(&in)
		if c.Leases {
			act = c.granting(act)
		}
	default:
		act = c.reading(&in)
	}
	return c.do(act, in)
}

// do runs act, which is all of the inputs, notes them, and returns whether it succeeded.
func (c *client) do(act func() (values, error), all ...input) bool {
	call := c.clock.Add(1)
	out, err := act()
	end := c.clock.Add(1)
	if err != nil {
		c.err = err
		c.answered.Add(int64(c.Clients * c.Ops)) // releases a goroutine that waits for a cut
		return false
	}
	c.answered.Add(1)
	for _, in := range all {
		c.done = append(c.done, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: out, Return: end})
	}
	return true
}

// wipe deletes a range of groups. The history has an operation for each of them.
func (c *client) wipe() bool {
	from := c.rnd.IntN(c.Count)
	to := from + 1 + c.rnd.IntN(c.Count-from)
	var all []input
	for group := from; group < to; group++ {
		all = append(all, input{group: group, mask: 1<<c.Width - 1, write: true, how: "wipe"})
	}
	return c.do(func() (values, error) {
		return values{}, c.d.DeleteRange(context.Background(), keyOf(from, 0), keyOf(to, 0), nil)
	}, all...)
}

// writing draws what is written, and returns how.
func (c *client) writing(in *input) func() (values, error) {
	var b db.Batch
	wo := &db.WriteOptions{NoSync: !c.Cut && c.rnd.IntN(8) > 0}
	for key := range c.Width {
		if !in.has(key) {
			continue
		}
		if c.rnd.IntN(4) == 0 {
			b.Delete(keyOf(in.group, key))
			continue
		}
		in.values[key] = int(c.written.Add(1))
		if c.Leases && c.rnd.IntN(2) == 0 {
			in.values[key] |= lease
			b.PutTTL(keyOf(in.group, key), valueOf(in.values[key]), epoch/2)
			continue
		}
		b.Put(keyOf(in.group, key), valueOf(in.values[key]))
	}
	single := bits.TrailingZeros8(in.mask)
	switch {
	case bits.OnesCount8(in.mask) > 1:
		in.how = "apply"
		return func() (values, error) { return values{}, c.d.Apply(&b, wo) }
	case in.values[single]&lease != 0:
		in.how = "lease"
		return func() (values, error) {
			return values{}, c.d.PutTTL(keyOf(in.group, single), valueOf(in.values[single]), epoch/2, wo)
		}
	case in.values[single] == 0:
		in.how = "delete"
		return func() (values, error) { return values{}, c.d.Delete(keyOf(in.group, single), wo) }
	}
	in.how = "put"
	return func() (values, error) {
		return values{}, c.d.Put(keyOf(in.group, single), valueOf(in.values[single]), wo)
	}
}

// reading returns how the keys of the mask are read together.
func (c *client) reading(in *input) func() (values, error) {
	op := *in
	switch {
	case bits.OnesCount8(in.mask) == 1 && c.rnd.IntN(2) == 0:
		in.how = "get"
		return func() (values, error) { return c.lookUp(op, c.d) }
	case c.rnd.IntN(2) == 0:
		in.how = "snapshot"
		return func() (values, error) {
			s := c.d.NewSnapshot()
			out, err := c.lookUp(op, s)
			if closing := s.Close(); err == nil {
				err = closing
			}
			return out, err
		}
	}
	in.how = "scan"
	back := c.rnd.IntN(2) == 0
	return func() (values, error) { return walkGroup(c.d, op, back) }
}

func (c *client) lookUp(in input, from reader) (out values, err error) {
	for key := range c.Width {
		if !in.has(key) {
			continue
		}
		v, err := from.Get(keyOf(in.group, key))
		if err == nil {
			out[key] = numberOf(v)
		} else if err != db.ErrNotFound {
			return out, err
		}
		runtime.Gosched()
	}
	return out, nil
}

// walkGroup reads the group with an iterator.
func walkGroup(from reader, in input, back bool) (out values, err error) {
	it, err := from.NewIterator(&db.IterOptions{LowerBound: keyOf(in.group, 0), UpperBound: keyOf(in.group+1, 0)})
	if err != nil {
		return out, err
	}
	begin, move := it.First, it.Next
	if back {
		begin, move = it.Last, it.Prev
	}
	for ok := begin(); ok; ok = move() {
		if key := int(it.Key()[len(it.Key())-1] - '0'); in.has(key) {
			out[key] = numberOf(it.Value())
		}
		runtime.Gosched()
	}
	return out, it.Close()
}

func keyOf(group, key int) []byte { return fmt.Appendf(nil, "group%04d/%d", group, key) }

// valueOf pads the number, so that memtables fill.
func valueOf(n int) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(n)), make([]byte, 60+n%80)...)
}

func numberOf(value []byte) int { return int(binary.LittleEndian.Uint64(value)) }
