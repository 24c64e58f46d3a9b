package tables

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Syncs syncs and closes finished tables in the background, a few at a time, so
// that whoever writes tables need not wait for the device after each. Several may add
// files; wait comes when they have.
type Syncs struct {
	free  chan struct{} // a place for each that may be under way
	group sync.WaitGroup

	mu  sync.Mutex
	err error // the first
}

// syncsAtOnce is how many tables may wait for the device. It is a bound on what is not
// durable yet; file systems take several syncs together.
const syncsAtOnce = 4

func NewSyncs() *Syncs { return &Syncs{free: make(chan struct{}, syncsAtOnce)} }

// Add takes over a file. The error is that of an earlier one.
func (s *Syncs) Add(f vfs.File) error {
	s.free <- struct{}{}
	s.group.Go(func() {
		err := base.Catch(nil, "the sync of a table", func() error { return errors.CombineErrors(f.Sync(), f.Close()) })
		s.mu.Lock()
		if s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
		<-s.free
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Wait returns when all files are closed, and the first error.
func (s *Syncs) Wait() error {
	s.group.Wait()
	return s.err
}
