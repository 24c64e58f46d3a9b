package changes

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
)

// Host is the store whose changes a loop reads.
type Host interface {
	// Limit returns the number of the last change that may be yielded: the last durable one, or with
	// unsynced the last visible one, which it makes readable.
	Limit(ctx context.Context, unsynced bool) (uint64, error)
	// LastVisible returns the last number that readers of the store see.
	LastVisible() uint64
	// Closing is closed when the store closes.
	Closing() <-chan struct{}
}

// Loop configures Run.
type Loop struct {
	ReaderOptions
	Source   Source
	Since    uint64
	Unsynced bool
	Wait     bool
}

// Run yields the changes after Since. It ends at the end that the options set, when yield returns false, or with an
// error, which it returns.
func (l *Loop) Run(ctx context.Context, host Host, yield func(*Change) bool) error {
	r := NewReader(l.Source, l.Since, l.ReaderOptions)
	defer r.Close()
	for first := true; ; first = false {
		if more, err := l.turn(ctx, host, r, first, yield); !more || err != nil {
			return err
		}
	}
}

// turn yields the changes that exist, and then waits for more.
func (l *Loop) turn(ctx context.Context, host Host, r *Reader, first bool, yield func(*Change) bool) (more bool, err error) {
	changed, end := l.watch()
	defer end() // also if yield panics
	more, err = l.round(ctx, host, r, first, yield)
	if err == nil && more {
		err = await(ctx, host, changed)
	}
	return more, err
}

// watch returns a channel that is closed when there may be more changes. It is called before a round, so that a change
// which that round misses closes the channel.
func (l *Loop) watch() (changed <-chan struct{}, end func()) {
	a, ok := l.Source.(*Archive)
	if !ok || !l.Wait {
		return nil, func() {}
	}
	return a.Watch()
}

// followPause is the time between two listings of a directory that another process writes to.
const followPause = 50 * time.Millisecond

// await waits for a change.
func await(ctx context.Context, host Host, changed <-chan struct{}) error {
	var tick <-chan time.Time
	if changed == nil {
		tick = time.After(followPause)
	}
	select {
	case <-changed:
	case <-tick:
	case <-ctx.Done():
		return ctx.Err()
	case <-host.Closing():
		return base.ErrClosed
	}
	return nil
}

// round yields the changes that exist. more is false if the loop is to end.
func (l *Loop) round(ctx context.Context, host Host, r *Reader, first bool, yield func(*Change) bool) (more bool, err error) {
	limit, err := host.Limit(ctx, l.Unsynced)
	if err != nil {
		return false, err
	}
	if at := r.Position(); first && at > max(limit, host.LastVisible()) {
		return false, Ahead(at, limit)
	}
	for {
		select {
		case <-host.Closing():
			return false, base.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		c, err := r.Next(limit)
		if err != nil {
			return false, err
		}
		if c == nil {
			return l.Wait, nil
		}
		if !yield(c) {
			return false, nil
		}
	}
}
