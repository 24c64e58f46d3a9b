package commit

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// Ended is the error of every write after a failure that ended them. It is base.ErrReadOnly and the cause.
type Ended struct {
	Cause error
	log   bool // the log has failed; Committer.Rotate lets writes go on
}

// Error says what failed, and what to do.
func (e *Ended) Error() string {
	if e.log {
		return "sievedb: read-only since the log failed; Flush writes what only the log and the memory have to tables, " +
			"and then writes go on in another log: " + e.Cause.Error()
	}
	return "sievedb: read-only since an earlier failure; close the database and open it again once the cause is gone: " + e.Cause.Error()
}

// Unwrap returns base.ErrReadOnly and the cause.
func (e *Ended) Unwrap() []error { return []error{base.ErrReadOnly, e.Cause} }

// isPanic reports whether a panic ended the writes.
func (e *Ended) isPanic() bool {
	var p *base.PanicError
	return errors.As(e.Cause, &p)
}

// frozen is the value of Committer.ended after Freeze, unless a failure ended the writes before.
var frozen = new(Ended)

// Freeze makes later writes fail with base.ErrReadOnly, unless they have ended already.
func (c *Committer) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.CompareAndSwap(nil, frozen)
}

// Refuse makes later writes fail with base.ErrClosed, and those that wait.
func (c *Committer) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed.Store(true)
	c.cond.Broadcast()
}

// Fail makes cause the reason that every later write fails, unless there already is one.
// A panic replaces another reason: while it unwinds, other goroutines may already meet its
// consequences, such as an uncertain edit of the MANIFEST.
func (c *Committer) Fail(cause error) {
	ended := &Ended{Cause: base.NoSpace(cause)}
	c.mu.Lock()
	first := c.ended.CompareAndSwap(nil, ended) || c.ended.CompareAndSwap(frozen, ended)
	if !first && ended.isPanic() && !c.ended.Load().isPanic() {
		c.ended.Store(ended)
		first = true
	}
	c.cond.Broadcast()
	c.mu.Unlock()
	if c.store.Stop != nil {
		c.store.Stop(c.Err())
	}
	if first {
		c.o.Failed(ended.Cause)
	}
}

// Err returns the error of every write once writes have ended, by a failure or by Freeze, nil before.
func (c *Committer) Err() error {
	switch e := c.ended.Load(); e {
	case nil:
		return c.Failure()
	case frozen:
		return base.ErrReadOnly
	default:
		return e
	}
}

// Failure is Err without Freeze, which is no failure.
func (c *Committer) Failure() error {
	e := c.ended.Load()
	if e == nil || e == frozen {
		e = c.logEnded.Load()
	}
	if e == nil {
		return nil
	}
	return e
}

// Frozen reports whether Freeze has ended the writes.
func (c *Committer) Frozen() bool { return c.ended.Load() == frozen }

// refusal returns why a write is refused: the store is closed, or its writes have ended.
func (c *Committer) refusal() error {
	if c.closed.Load() {
		return base.ErrClosed
	}
	if c.ended.Load() == nil {
		return nil // also if the log has failed: see ready
	}
	return c.Err()
}

// Guard is base.Catch for work on which the store depends: a panic ends the writes, because
// its partial result is unknown. The Committer's lock is not held.
func (c *Committer) Guard(during string, f func() error) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = c.panicked(during, recover())
		}
	}()
	err = f()
	returned = true
	return err
}

// panicked ends the writes because of a panic with value. It is for deferred functions.
func (c *Committer) panicked(during string, value any) error {
	err := base.NewPanicError(c.o.Cmp, during, value)
	c.Fail(err)
	return err
}

// leaderPanicked ends a leadership that panicked. The other writers of the group get the error.
func (c *Committer) leaderPanicked(value any) {
	_ = c.panicked("a write", value)
	c.queue.endGroup(c.Err())
	if value != nil { // nil: the goroutine ends, without a panic
		panic(value)
	}
}

// Ending returns a channel that is closed when writing begins to end.
func (c *Committer) Ending() <-chan struct{} { return c.ending }

// BeginEnd begins the end of writing, after Refuse or Freeze: what waits stops, and the background work sees Ending. It
// is called once.
func (c *Committer) BeginEnd() {
	close(c.ending)
	c.Wake()
}

// Shut makes calls return refuse from now on, without waiting for anything, and waits until those that have begun have
// ended, which is soon. BeginEnd was called before.
func (c *Committer) Shut(refuse error) {
	c.queue.shut(refuse)
	c.background.Wait() // the leader begins its goroutines, and there is none any more
}

// LogEnd describes the log of a store that has been shut.
type LogEnd struct {
	Num     uint64
	Size    int64  // bytes that were written
	LastSeq uint64 // the last number of a write that did not fail
	// Failed says that the log may lack writes up to LastSeq, all of which are in the memtables or in tables. Used is
	// the last number in use, also by writes that failed.
	Failed bool
	Used   uint64
}

// CloseLog makes the writes durable and closes the log, after Shut. It removes the log that was made in advance. Each
// step is made even if an earlier one failed. The error is that of the log, whose file is not touched after a failure.
func (c *Committer) CloseLog() (LogEnd, error) {
	l := &c.log
	err := base.Catch(c.o.Cmp, "Close", c.dropSuccessor)
	end := LogEnd{Num: l.num, Size: l.w.Size(), LastSeq: l.logged, Used: l.lastSeq}
	if e := c.ended.Load(); e != nil && e.isPanic() { // what memtables and log have is unknown
		return end, errors.CombineErrors(err, base.Catch(c.o.Cmp, "Close", l.w.Close))
	}
	if p := base.Catch(c.o.Cmp, "Close", func() error {
		if l.close(); l.failed == nil {
			l.failed = c.ownLog.Load().Verify(l.w.Size())
		}
		return nil
	}); p != nil {
		l.failed = p
	}
	if l.failed == nil {
		c.synced.Store(l.logged)
		c.wakeReaders()
	}
	end.Failed = l.failed != nil
	return end, errors.CombineErrors(l.failed, err)
}

// LogSaved is called once durable tables have all that a failed log may lack.
func (c *Committer) LogSaved() {
	c.logEnded.Store(nil)
	c.synced.Store(c.log.logged)
	c.wakeReaders()
}
