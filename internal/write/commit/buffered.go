package commit

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// bufferedFor is about how long a buffered write stays in the log's buffer if no other write flushes it.
const bufferedFor = 10 * time.Millisecond

// announceBuffered makes sure that the bytes in the log's buffer do not stay there. Only the leader calls it.
func (c *Committer) announceBuffered() {
	if c.log.buffered == nil {
		c.log.buffered = make(chan struct{}, 1)
		base.GoIn(&c.background, func() { c.handOverLoop(c.log.buffered) })
	}
	select {
	case c.log.buffered <- struct{}{}:
	default:
	}
}

// handOverLoop writes what remains in the log's buffer to the operating system after a
// while. It queues like a writer, because only the leader uses the log.
func (c *Committer) handOverLoop(buffered <-chan struct{}) {
	for {
		select {
		case <-buffered:
		case <-c.ending:
			return // the end of writing writes the buffer
		}
		if !c.Pause(bufferedFor) {
			return
		}
		_ = c.Guard("the writing of buffered records", c.HandOver) // handOver has reported it
	}
}

// HandOver writes the log's buffer to the operating system. It is base.ErrClosed for a closed store, and nil if writes
// have ended for another reason.
func (c *Committer) HandOver() error {
	refused := true
	err := c.Lead(context.Background(), func(l *Leader) error {
		refused = false
		return l.HandOver()
	})
	if refused && err != base.ErrClosed && c.Err() != nil {
		return nil
	}
	return err
}

// handOver writes the log's buffer. Only the leader calls it.
func (c *Committer) handOver() error {
	select {
	case <-c.log.buffered: // the write that it announces is about to happen
	default:
	}
	if c.log.w.Buffered() == 0 {
		return nil
	}
	if err := c.log.w.Flush(); err != nil {
		return c.logFailed(errors.Wrap(err, "sievedb: writing buffered records to the log"))
	}
	return nil
}
