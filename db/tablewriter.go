package db

import (
	"bytes"
	"slices"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/sievedb/sievedb/sstable"
)

// tableWriterOptions say where and how tables are written.
type tableWriterOptions struct {
	Dir directory
	// Kind is that of the files' names.
	Kind base.FileKind
	// NewFileNum hands out the number of each file.
	NewFileNum func() uint64
	// Table is for all tables.
	Table sstable.WriterOptions
	// Filter, if not nil, returns the filter policy of a table instead of Table.Filter.
	Filter func(fileNum uint64) filter.Policy
	// Spares are the writers that are used again.
	Spares *spareWriters
	// Syncs syncs finished tables in the background; nil: a table is durable when it is
	// finished.
	Syncs *tableSyncs
}

// tableWriter writes entries, which come in the order of internal keys, to one
// table after another. The files are synced when they are finished, and their
// directory entries in finish. It belongs to one goroutine.
type tableWriter struct {
	options tableWriterOptions
	files   []*manifest.FileMeta // finished

	num  uint64 // of the open table
	file vfs.File
	w    *sstable.Writer
}

func newTableWriter(o tableWriterOptions) *tableWriter { return &tableWriter{options: o} }

// setFilter changes the filter policy of the tables that are begun from now on.
func (t *tableWriter) setFilter(policy func(fileNum uint64) filter.Policy) { t.options.Filter = policy }

// open reports whether a table has been begun and not ended.
func (t *tableWriter) open() bool { return t.w != nil }

// size returns the bytes of the open table so far.
func (t *tableWriter) size() uint64 { return t.w.EstimatedSize() }

// path returns the path of table num.
func (t *tableWriter) path(num uint64) string { return t.options.Dir.File(t.options.Kind, num) }

func (t *tableWriter) add(ikey, value []byte) error {
	if t.w == nil {
		t.num = t.options.NewFileNum()
		file, err := t.options.Dir.FS.Create(t.path(t.num))
		if err != nil {
			return err
		}
		t.file = newTableFile(file)
		o := t.options.Table
		if t.options.Filter != nil {
			o.Filter = t.options.Filter(t.num)
		}
		t.w = t.options.Spares.take(t.file, o)
	}
	return t.w.Add(ikey, value)
}

// coverSeq notes that the entry added last had that sequence number before.
func (t *tableWriter) coverSeq(seq uint64) { t.w.CoverSeq(seq) }

// spareWriters are table writers that have finished their tables and wait for the
// next one: what a writer needs for blocks, index and filters grows with the table.
// They are no sync.Pool, which the runtime would keep, and with it the store around
// it, for two garbage collections after the last use: a program that opens and closes
// one store after another would hold more of them with each collection.
type spareWriters struct {
	most     int    // how many are kept
	mostKept uint64 // bytes of memory that one may hold to be kept

	mu   sync.Mutex
	idle []*sstable.Writer
}

func newSpareWriters(most int, mostKept uint64) *spareWriters {
	return &spareWriters{most: most, mostKept: mostKept}
}

// take returns a writer of a table to file, one that made such filters before if there is one.
func (s *spareWriters) take(file vfs.File, o sstable.WriterOptions) *sstable.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return sstable.NewWriter(file, o)
	}
	i := max(slices.IndexFunc(s.idle, func(w *sstable.Writer) bool { return w.MakesFilter(o.Filter) }), 0)
	w := s.idle[i]
	s.idle = slices.Delete(s.idle, i, i+1)
	w.Reset(file)
	w.SetFilter(o.Filter)
	return w
}

// give takes back a writer that has finished, unless there are enough already, or it would
// keep more than mostKept bytes.
func (s *spareWriters) give(w *sstable.Writer) {
	if w.MemoryKept() > s.mostKept {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < s.most {
		s.idle = append(s.idle, w)
	}
}

// endTable finishes the open table.
func (t *tableWriter) endTable() error {
	props, err := t.w.Finish()
	if err != nil {
		return err
	}
	err = t.endFile()
	f := manifest.NewFileMeta(t.num, t.w.Size(), t.w.Smallest(), bytes.Clone(t.w.Largest()))
	f.Handle = handleOf(t.w)
	f.Counts.Store(countsOf(&props))
	f.Seqs.Store(seqsOf(&props))
	t.files = append(t.files, f)
	t.options.Spares.give(t.w)
	t.w = nil
	return err
}

// endFile syncs and closes the open table's file, or has that done.
func (t *tableWriter) endFile() error {
	file := t.file
	t.file = nil
	if t.options.Syncs != nil {
		return t.options.Syncs.add(file)
	}
	return errors.CombineErrors(file.Sync(), file.Close())
}

// finish ends the open table, makes the names of all durable and returns them.
// After an error no file is left.
func (t *tableWriter) finish() ([]*manifest.FileMeta, error) {
	err := error(nil)
	if t.w != nil {
		err = t.endTable()
	}
	if err == nil && len(t.files) > 0 {
		err = t.options.Dir.FS.SyncDir(t.options.Dir.Path)
	}
	if err != nil {
		t.abandon()
		return nil, errors.Wrap(err, "sievedb: writing tables")
	}
	return t.files, nil
}

// abandon removes all that was written.
func (t *tableWriter) abandon() {
	if t.file != nil {
		_ = t.file.Close() // the file goes away
		t.file = nil
	}
	if t.w != nil {
		t.options.Dir.Remove(t.path(t.num))
		t.w = nil
	}
	for _, f := range t.files {
		t.options.Dir.Remove(t.path(f.Num))
	}
	t.files = nil
}
