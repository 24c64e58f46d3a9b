package machine

import (
	"context"
	"time"
)

// pacer limits a stream to a number of bytes per second.
type pacer struct {
	perSecond int64 // 0: no limit
	due       time.Time
}

// chunkFor returns the bytes to write at a time, so that a slow stream flows about ten times a second.
func chunkFor(perSecond int64) int {
	if perSecond <= 0 {
		return chunkLen
	}
	return int(min(max(perSecond/10, 1<<10), chunkLen))
}

// wait waits until n more bytes may be sent. Time in which nothing was sent is not made up for.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.perSecond <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if p.due.Before(now) {
		p.due = now
	}
	delay := p.due.Sub(now)
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.perSecond) * float64(time.Second)))
	if delay <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
