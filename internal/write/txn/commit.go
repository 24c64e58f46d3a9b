package txn

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// Store is the store of a transaction, as its Commit sees it.
type Store interface {
	// Visible returns the last sequence number that readers see.
	Visible() uint64
	// Examine searches the runs for changes of what was read. It covers all commits up to the
	// horizon that it returns, and perhaps later ones. A change is base.ErrConflict.
	Examine() (horizon uint64, err error)
	// Write queues the batch. When its turn comes, the leader calls check with the batches before this one in its
	// group, and writes nothing if that returns an error. Write returns that error as it is.
	Write(check Check) error
}

// Check is called by the leader of the commit queue with the batches that it commits before the one
// that is checked. After an error that one is not written.
type Check func(before []*batch.Batch) error

// ErrExamineAgain says that an examination does not cover all commits.
var ErrExamineAgain = errors.Sentinel("sievedb: the transaction must be examined again")

// examinations bounds how often a transaction is examined outside of the commit queue. Once is
// enough unless a load, or a great many writes, were committed meanwhile.
const examinations = 3

// Committer commits a transaction with reads and writes.
type Committer struct {
	Store  Store
	Reads  *Reads
	Recent *Recent // of the store
}

// Commit writes the transaction's batch unless something that it read has changed. That is base.ErrConflict.
func (c Committer) Commit() error {
	c.Reads.Prepare()
	c.Recent.Begin()
	defer c.Recent.End()
	for n := 0; ; n++ {
		horizon, err := c.Store.Examine()
		if err != nil {
			return err
		}
		err = c.Store.Write(func(before []*batch.Batch) error { return c.CheckLate(before, horizon, n == examinations) })
		if err != ErrExamineAgain {
			return err
		}
	}
}

// CheckLate compares the reads with the commits above horizon, and with the batches that the leader
// commits before this one. If these commits are not known, it returns ErrExamineAgain or, the last
// time, examines the transaction itself. Only the leader calls it.
func (c Committer) CheckLate(before []*batch.Batch, horizon uint64, last bool) error {
	if !c.Recent.Covers(horizon, c.Store.Visible()) {
		if !last {
			return ErrExamineAgain
		}
		// Nothing is committed now, so this covers everything.
		if _, err := c.Store.Examine(); err != nil {
			return err
		}
	} else if c.Recent.Conflict(c.Reads, horizon) {
		return base.ErrConflict
	}
	for _, b := range before {
		if BatchConflict(c.Reads, b.Entries(), b.Count()) {
			return base.ErrConflict
		}
	}
	return nil
}
