package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// successor is a log and a memtable that replace the present ones when these are full. They are
// made in advance, because creating a file, syncing its directory and clearing a memtable's
// memory takes longer than thousands of writes. The next Open removes an empty log that a crash
// leaves.
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

// prepareSuccessor makes a successor in the background. Only the leader runs it.
func (d *DB) prepareSuccessor() {
	s := &successor{done: make(chan struct{})}
	d.log.next = s
	d.background.Add(1) // Close waits for the leader first
	go func() {
		defer d.background.Done()
		defer close(s.done)
		if err := d.guard("the making of a log", func() error { d.makeSuccessor(s, 0); return nil }); err != nil {
			s.err = err
			return
		}
		if s.mem != nil {
			s.mem.Touch()
		}
	}()
}

// makeSuccessor makes s, with a memtable for memSize bytes unless that would be one more than
// Options.Memtables.MaxWaiting allows.
func (d *DB) makeSuccessor(s *successor, memSize uint64) {
	s.num = d.set.NewFileNum()
	if s.w, s.err = d.createLog(s.num); s.err == nil && len(d.state().Imm) < d.options().Memtables.MaxWaiting && d.share.Memory().Room(0) {
		s.mem = d.newMemBuffer(s.num, memSize)
		d.spareMemory.Store(s.mem.Memory())
	}
}

// takeSuccessor returns a successor for memSize bytes of entries: the one that was prepared or,
// if there is none, one made now. Its log's number is above those of all earlier logs, so every
// caller that starts a log takes it here. Only the leader runs it.
func (d *DB) takeSuccessor(memSize uint64) (*successor, error) {
	s := d.log.next
	if s != nil {
		d.log.next = nil
		<-s.done
		d.spareMemory.Store(0)
	}
	if s == nil || s.err != nil {
		s = &successor{}
		if d.makeSuccessor(s, memSize); s.err != nil {
			return nil, errors.Wrap(s.err, "sievedb: starting a new log")
		}
		d.spareMemory.Store(0)
	}
	if s.mem != nil && uint64(s.mem.Available()) < memSize {
		s.mem.Free()
		s.mem = nil
	}
	if s.mem == nil {
		s.mem = d.newMemBuffer(s.num, memSize)
	}
	return s, nil
}

// dropSuccessor removes the log of a prepared successor that is not needed. The leader runs it,
// or Close when there is no leader any more.
func (d *DB) dropSuccessor() error {
	s := d.log.next
	if s == nil {
		return nil
	}
	d.log.next = nil
	<-s.done
	d.spareMemory.Store(0)
	if s.mem != nil {
		s.mem.Free()
	}
	if s.err != nil {
		return nil // there is nothing
	}
	err := s.w.Close()
	d.files.Remove(d.files.File(base.FileLog, s.num))
	return err
}
