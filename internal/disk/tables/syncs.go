package tables

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Syncs syncs and closes finished tables in the background, a few at a time, so that the writer of tables does not wait
// for the device after each. Several goroutines may add files. Wait must be called after all of them are added.
type Syncs struct {
	free  chan struct{} // has an element for each sync under way
	group sync.WaitGroup

	mu  sync.Mutex
	err error // the first
}

// maxSyncs is the largest number of concurrent syncs. It bounds the data that is not durable
// yet; file systems combine several syncs.
const maxSyncs = 4

// NewSyncs returns a Syncs without files.
func NewSyncs() *Syncs { return &Syncs{free: make(chan struct{}, maxSyncs)} }

// Add takes ownership of a file, which it syncs and closes in the background. The error is that of an earlier file.
func (s *Syncs) Add(f vfs.File) error {
	s.free <- struct{}{}
	base.GoIn(&s.group, func() {
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

// Wait waits until all files are closed and returns the first error.
func (s *Syncs) Wait() error {
	s.group.Wait()
	return s.err
}
