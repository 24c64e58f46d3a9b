package db

import (
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/manifest"
)

// obsoleteFiles holds tables that no version names any more until they are removed.
type obsoleteFiles struct {
	dir     directory
	tables  *tableCache
	removed func(fileNum uint64) // called after each removal, without a lock

	mu    sync.Mutex
	files []manifest.LevelFile
	kick  chan struct{} // wakes cleanLoop; capacity 1
}

// newObsoleteFiles returns an empty list for the tables that cache opens.
func newObsoleteFiles(dir directory, cache *tableCache, removed func(fileNum uint64)) *obsoleteFiles {
	return &obsoleteFiles{dir: dir, tables: cache, removed: removed, kick: make(chan struct{}, 1)}
}

// add is the manifest.Set's Obsolete function: it must not block.
func (o *obsoleteFiles) add(files []manifest.LevelFile) {
	o.mu.Lock()
	o.files = append(o.files, files...)
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// count returns how many files wait for their removal.
func (o *obsoleteFiles) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.files)
}

// remove removes the files that are waiting. Several goroutines may call it;
// each file is removed by one of them.
func (o *obsoleteFiles) remove() {
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

// run removes files that readers gave up, until closing is closed.
func (o *obsoleteFiles) run(closing <-chan struct{}) {
	for {
		select {
		case <-o.kick:
			o.remove()
		case <-closing:
			return
		}
	}
}
