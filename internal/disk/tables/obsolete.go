package tables

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/disk/version"
)

// Obsolete holds tables that are in no version any more, or may be in none, until they are removed.
type Obsolete struct {
	dir     Directory
	tables  *Cache
	removed func(fileNum uint64) // called after each removal, without a lock

	removing atomic.Bool // a goroutine removes files

	mu    sync.Mutex
	files []version.LevelFile
	// uncertain are the tables of edits that failed and may be in force. A later edit decides.
	uncertain []*version.FileMeta
	kick      chan struct{} // wakes Run; capacity 1
}

// NewObsolete returns an empty list for the tables that cache opens. removed is called with
// the number of each removed file.
func NewObsolete(dir Directory, cache *Cache, removed func(fileNum uint64)) *Obsolete {
	return &Obsolete{dir: dir, tables: cache, removed: removed, kick: make(chan struct{}, 1)}
}

// Add adds files to the list. It is the Obsolete function of a manifest.Set and does not block.
func (o *Obsolete) Add(files []version.LevelFile) {
	o.mu.Lock()
	o.files = append(o.files, files...)
	o.mu.Unlock()
	o.wake()
}

func (o *Obsolete) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// Count returns how many files wait to be removed.
func (o *Obsolete) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.files)
}

// AddUncertain adds tables of an edit that failed and may be in force.
func (o *Obsolete) AddUncertain(files ...*version.FileMeta) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncertain = append(o.uncertain, files...)
}

// TakeUncertain returns the tables of failed edits that may be in force, and forgets them: once a later edit is in
// force, they are not needed.
func (o *Obsolete) TakeUncertain() []*version.FileMeta {
	o.mu.Lock()
	defer o.mu.Unlock()
	files := o.uncertain
	o.uncertain = nil
	return files
}

// Remove removes the waiting files in the order in which they were added: an older entry of a key must not outlive the
// newer ones, since after another program's repair it would hide the one with sequence number 0 (see twinBefore). While
// another goroutine removes files, it does not wait, and leaves them to Run.
func (o *Obsolete) Remove() {
	if o.Count() == 0 || !o.removing.CompareAndSwap(false, true) {
		return
	}
	defer func() {
		o.removing.Store(false)
		if o.Count() > 0 {
			o.wake()
		}
	}()
	o.mu.Lock()
	files := o.files
	o.files = nil
	o.mu.Unlock()
	for _, f := range files {
		o.tables.Drop(f.File)
		o.dir.Remove(filepath.Join(o.dir.Path, f.File.Name()))
		o.removed(f.File.Num)
	}
}

// Run removes files as they are added, until closing is closed. It calls tick once in each period.
func (o *Obsolete) Run(closing <-chan struct{}, period time.Duration, tick func()) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		select {
		case <-o.kick:
			o.Remove()
		case <-ticks.C:
			tick()
		case <-closing:
			return
		}
	}
}
