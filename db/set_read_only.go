package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// stop is the end of writing, by Close, or earlier by SetReadOnly, and that of the DB.
type stop struct {
	closing chan struct{} // closed when Close begins
	mu      sync.Mutex    // held while writing ends; it guards done
	done    bool
}

// SetReadOnly makes an open store read-only until it is opened again. When it returns, nothing in the directory is
// written, created or removed any more, also not by Close: all acknowledged writes are durable, and the background
// work has ended, a running compaction without a result. Lookups, iterators, snapshots, Changes and reports continue.
// Everything that writes returns ErrReadOnly from then on, Checkpoint included; a load that was not committed is
// discarded, and the error says so, as Close's does. The directory stays locked until Close.
//
// After another error the store is read-only as well, and what was acknowledged without Sync may be lost in a power
// cut. A second call does nothing. A store that was opened read-only returns nil, a closed one ErrClosed, and a call
// from a function of the EventListener ErrInListener.
func (d *DB) SetReadOnly() error {
	switch {
	case d == nil || d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return nil
	case d.listenerCalls.InThisGoroutine():
		return ErrInListener
	}
	d.stop.mu.Lock()
	defer d.stop.mu.Unlock()
	if d.stop.done {
		return nil
	}
	if d.closed.Load() {
		return ErrClosed
	}
	d.commit.Freeze()
	d.compactor.Stop(d.commit.Err())
	err := d.endWriting(ErrReadOnly)
	if failure := d.commit.Failure(); failure != nil {
		err = failure
	}
	return errors.CombineErrors(base.NoSpace(err), d.bulk.Discarded("made read-only"))
}

// endWriting ends all that writes, and makes the writes durable. Calls that write return refuse from then on, or
// ErrClosed. d.stop.mu is held.
func (d *DB) endWriting(refuse error) (err error) {
	d.stop.done = true
	d.commit.BeginEnd()
	d.compactor.Close()

	// From here no new writer starts, and the present leader ends.
	d.commit.Shut(refuse)
	d.background.Wait()
	d.compactor.Wait()
	if d.feeds.kept != nil {
		d.feeds.kept.Close()
	}

	keep := func(e error) { err = errors.CombineErrors(err, e) }
	var p *PanicError
	if ended := d.commit.Err(); errors.As(ended, &p) {
		keep(ended) // perhaps no write came since
	}
	// Each step runs even if an earlier one failed; otherwise the directory would stay locked.
	try := func(step func() error) { keep(base.Catch(d.opts.Comparer, "Close", step)) }
	try(func() error { d.bulk.GiveUp(refuse); return nil })
	if d.opts.ReadOnly {
		return err
	}
	try(func() error { d.commit.Verify(); return nil })
	try(d.recordTime)
	log, closeErr := d.commit.CloseLog()
	if log.Failed {
		closeErr = base.Catch(d.opts.Comparer, "Close", func() error { return d.flusher.SaveMemtables(&log, closeErr) })
	}
	keep(closeErr)
	if gone := d.commit.Failure(); manifest.IsGone(gone) && !log.Failed {
		try(func() error { return d.flusher.OnlyInLog(log, gone) })
	}
	try(func() error { d.flusher.Obsolete.Remove(); return nil })
	whole := d.set.Sound() && (log.Failed || d.commit.Failure() == nil)
	try(d.set.Close)
	if whole && (log.Failed || err == nil) {
		try(func() error { return d.flusher.WriteCloseMark(log) })
	}
	return err
}

// orReadOnly returns why writes have ended instead of the ErrClosed of work that SetReadOnly has stopped.
func (d *DB) orReadOnly(err error) error {
	if ended := d.commit.Err(); err == ErrClosed && ended != nil && !d.closed.Load() {
		return ended
	}
	return err
}
