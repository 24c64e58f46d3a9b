package tables

import (
	"sync"
	"weak"

	"github.com/sievedb/sievedb/sstable"
)

// readers is the set of readers whose files are open: those in a Cache, and those that left it but still have
// references. Only the opening and the closing of a table change it. Weak pointers let the garbage collector
// free the reader of an iterator that its owner lost, and with it the file of an OS.
type readers struct {
	mu    sync.Mutex
	open  map[weak.Pointer[sstable.Reader]]struct{}
	ended bool
}

// add adds a reader. After end it returns false, and the caller closes the reader.
func (s *readers) add(r *sstable.Reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.open == nil {
		s.open = make(map[weak.Pointer[sstable.Reader]]struct{})
	}
	s.open[weak.Make(r)] = struct{}{}
	return true
}

// forget removes a reader whose file is closed, if it was added.
func (s *readers) forget(r *sstable.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, weak.Make(r))
}

// closeFiles closes the files of all readers, without the lock, and makes add refuse others.
func (s *readers) closeFiles() {
	s.mu.Lock()
	open := s.open
	s.open, s.ended = nil, true
	s.mu.Unlock()
	for p := range open {
		if r := p.Value(); r != nil {
			r.CloseFile()
		}
	}
}
