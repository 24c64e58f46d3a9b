package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// durability is where a write must be before it is acknowledged. A group has the greatest
// durability of its writes.
type durability uint8

const (
	inBuffer   durability = iota // in the log's buffer
	withSystem                   // written to the log
	onDisk                       // and synced
)

func (wo *WriteOptions) durability() durability {
	switch {
	case wo == nil:
		return onDisk
	case wo.Buffered:
		return inBuffer
	case wo.NoSync:
		return withSystem
	}
	return onDisk
}

// bufferedFor is about how long a buffered write stays in the log's buffer if no other
// write flushes it.
const bufferedFor = 10 * time.Millisecond

// noteBuffered makes sure that the bytes in the log's buffer do not stay there. Only the
// leader runs it.
func (d *DB) noteBuffered() {
	if d.log.buffered == nil {
		d.log.buffered = make(chan struct{}, 1)
		d.background.Add(1) // Close waits for the leader first
		go d.handOverLoop(d.log.buffered)
	}
	select {
	case d.log.buffered <- struct{}{}:
	default:
	}
}

// handOverLoop writes what remains in the log's buffer to the operating system after a
// while. It queues like a writer, because only the leader uses the log.
func (d *DB) handOverLoop(buffered <-chan struct{}) {
	defer d.background.Done()
	r := &commitRequest{alone: (*DB).handOver}
	for {
		select {
		case <-buffered:
		case <-d.stop.begun:
			return // the end of writing writes the buffer
		}
		if !d.pause(bufferedFor) {
			return
		}
		_ = d.guard("the writing of buffered records", func() error { return d.commit.run(d, r) }) // handOver has reported it
	}
}

// handOver writes the log's buffer. Only the leader runs it.
func (d *DB) handOver() error {
	select {
	case <-d.log.buffered: // the write that it announces is about to happen
	default:
	}
	if d.log.w.Buffered() == 0 {
		return nil
	}
	if err := d.log.w.Flush(); err != nil {
		err = errors.Wrap(err, "sievedb: writing buffered records to the log")
		d.logFailed(err)
		return err
	}
	return nil
}
