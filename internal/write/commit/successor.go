package commit

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// successor is a log and a memtable that replace the present ones when these are full. They are made in advance,
// because creating a file, syncing its directory and clearing a memtable's memory takes longer than thousands of
// writes. The next opening removes an empty log that a crash leaves.
type successor struct {
	done chan struct{} // closed when the fields below are set
	num  uint64
	w    *wal.Writer
	mem  *lookup.Memtable // nil: none was made; see makeSuccessor
	err  error            // set if there is no log
}

// successorShare is the free part of a memtable when its successor is begun, as a divisor: a
// fast writer fills it in some 25 ms at 16 MiB.
const successorShare = 4

// prepareSuccessor makes a successor in the background. Only the leader calls it.
func (c *Committer) prepareSuccessor() {
	s := &successor{done: make(chan struct{})}
	c.log.next = s
	base.GoIn(&c.background, func() {
		defer close(s.done)
		if err := c.Guard("the making of a log", func() error { c.makeSuccessor(s, 0); return nil }); err != nil {
			s.err = err
			return
		}
		if s.mem != nil {
			s.mem.Touch()
		}
	})
}

// makeSuccessor makes s, with a memtable for memSize bytes unless that would be one more than
// Limits.MaxMemtables allows.
func (c *Committer) makeSuccessor(s *successor, memSize uint64) {
	s.num = c.store.Set.NewFileNum()
	if s.w, s.err = c.CreateLog(s.num); s.err == nil && len(c.state().Imm) < c.limits.Load().MaxMemtables && c.o.Memory.Room(0) {
		s.mem = c.newMemtable(s.num, memSize)
		c.spare.Store(s.mem.Memory())
	}
}

// takeSuccessor returns a successor for memSize bytes of entries: the one that was prepared or,
// if there is none, one made now. Its log's number is above those of all earlier logs, so every
// caller that starts a log takes it here. Only the leader calls it.
func (c *Committer) takeSuccessor(memSize uint64) (*successor, error) {
	s := c.log.next
	if s != nil {
		c.log.next = nil
		<-s.done
		c.spare.Store(0)
	}
	if s == nil || s.err != nil {
		s = &successor{}
		if c.makeSuccessor(s, memSize); s.err != nil {
			return nil, errors.Wrap(s.err, "sievedb: starting a new log")
		}
		c.spare.Store(0)
	}
	if s.mem != nil && uint64(s.mem.Available()) < memSize {
		s.mem.Free()
		s.mem = nil
	}
	if s.mem == nil {
		s.mem = c.newMemtable(s.num, memSize)
	}
	return s, nil
}

// dropSuccessor removes the log of a prepared successor that is not needed. There is no leader any more.
func (c *Committer) dropSuccessor() error {
	s := c.log.next
	if s == nil {
		return nil
	}
	c.log.next = nil
	<-s.done
	c.spare.Store(0)
	if s.mem != nil {
		s.mem.Free()
	}
	if s.err != nil {
		return nil // there is nothing
	}
	err := s.w.Close()
	c.o.Dir.Remove(c.o.Dir.File(base.FileLog, s.num))
	return err
}

// lacksMemory reports whether a new memtable must wait for a flush of this store, because its part of
// the shared memory is used up. Only the leader calls it.
func (c *Committer) lacksMemory(s *lookup.State) bool {
	if c.o.Memory == nil || len(s.Imm) == 0 || c.log.next != nil && c.log.next.mem != nil {
		return false
	}
	return !c.o.Memory.Room(0)
}

// awaitSuccessor waits until the successor that is being made is there, so that lacksMemory knows
// whether it has memory. Only the leader calls it.
func (c *Committer) awaitSuccessor() {
	if c.o.Memory != nil && c.log.next != nil {
		<-c.log.next.done
	}
}

// ServeMemory flushes memtables whose memory another store needs, until writing ends. Memory is not nil.
func (c *Committer) ServeMemory() {
	c.o.Memory.Serve(c.ending, func() (yielded bool, err error) {
		err = c.run(&request{alone: func() (err error) {
			yielded, err = c.yieldMemory()
			return err
		}})
		return yielded, err
	})
}

// yieldMemory gives up the memory that other stores can use, or begins to flush it. It does not wait
// for a flush in progress. Only the leader calls it.
func (c *Committer) yieldMemory() (yielded bool, err error) {
	c.awaitSuccessor()
	if next := c.log.next; next != nil && next.mem != nil && !next.mem.Grant.Small() {
		next.mem.Free()
		next.mem, yielded = nil, true
		c.spare.Store(0)
	}
	if c.refusal() != nil {
		return yielded, nil
	}
	if err := c.ready(); err != nil {
		return yielded, err
	}
	switch mem := c.state().Mem; {
	case mem.Grant.Small() || c.stalled():
		return yielded, nil
	case mem.Len() > 0:
		return true, c.rotate(0)
	case c.log.w.Size() == 0:
		c.enlargeMemtable(mem.LogNum, 0) // a small one now
		return true, nil
	}
	return yielded, nil
}
