package tables

import (
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/manifest"
)

// Obsolete holds tables that no version names any more until they are removed.
type Obsolete struct {
	dir     Directory
	tables  *Cache
	removed func(fileNum uint64) // called after each removal, without a lock

	mu    sync.Mutex
	files []manifest.LevelFile
	kick  chan struct{} // wakes cleanLoop; capacity 1
}

// NewObsolete returns an empty list for the tables that cache opens.
func NewObsolete(dir Directory, cache *Cache, removed func(fileNum uint64)) *Obsolete {
	return &Obsolete{dir: dir, tables: cache, removed: removed, kick: make(chan struct{}, 1)}
}

// Add is the manifest.Set's Obsolete function: it must not block.
func (o *Obsolete) Add(files []manifest.LevelFile) {
	o.mu.Lock()
	o.files = append(o.files, files...)
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// Count returns how many files wait for their removal.
func (o *Obsolete) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.files)
}

// Remove removes the files that are waiting. Several goroutines may call it;
// each file is removed by one of them.
func (o *Obsolete) Remove() {
	o.mu.Lock()
	files := o.files
	o.files = nil
	o.mu.Unlock()
	for _, f := range files {
		o.tables.drop(f.File)
		o.dir.Remove(filepath.Join(o.dir.Path, f.File.Name()))
		o.removed(f.File.Num)
	}
}

// Run removes files that readers gave up, until closing is closed.
func (o *Obsolete) Run(closing <-chan struct{}) {
	for {
		select {
		case <-o.kick:
			o.Remove()
		case <-closing:
			return
		}
	}
}
