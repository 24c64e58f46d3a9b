package tables

import (
	"bytes"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// WriterOptions say where and how tables are written.
type WriterOptions struct {
	Dir Directory
	// Kind is that of the files' names.
	Kind base.FileKind
	// NewFileNum hands out the number of each file.
	NewFileNum func() uint64
	// Table is for all tables.
	Table sstable.WriterOptions
	// Filter, if not nil, returns the filter policy of a table instead of Table.Filter.
	Filter func(fileNum uint64) filter.Policy
	// Spares are the writers that are used again.
	Spares *SpareWriters
	// Syncs syncs finished tables in the background; nil: a table is durable when it is
	// finished.
	Syncs *Syncs
}

// Writer writes entries, which come in the order of internal keys, to one
// table after another. The files are synced when they are finished, and their
// directory entries in finish. It belongs to one goroutine.
type Writer struct {
	options WriterOptions
	Files   []*manifest.FileMeta // finished

	num  uint64 // of the open table
	file vfs.File
	w    *sstable.Writer
}

func NewWriter(o WriterOptions) *Writer { return &Writer{options: o} }

// SetFilter changes the filter policy of the tables that are begun from now on.
func (t *Writer) SetFilter(policy func(fileNum uint64) filter.Policy) { t.options.Filter = policy }

// Open reports whether a table has been begun and not ended.
func (t *Writer) Open() bool { return t.w != nil }

// Size returns the bytes of the open table so far.
func (t *Writer) Size() uint64 { return t.w.EstimatedSize() }

// path returns the path of table num.
func (t *Writer) path(num uint64) string { return t.options.Dir.File(t.options.Kind, num) }

func (t *Writer) Add(ikey, value []byte) error {
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

// CoverSeq notes that the entry added last had that sequence number before.
func (t *Writer) CoverSeq(seq uint64) { t.w.CoverSeq(seq) }

// SpareWriters are table writers that have finished their tables and wait for the
// next one: what a writer needs for blocks, index and filters grows with the table.
// They are no sync.Pool, which the runtime would keep, and with it the store around
// it, for two garbage collections after the last use: a program that opens and closes
// one store after another would hold more of them with each collection.
type SpareWriters struct {
	most     int    // how many are kept
	mostKept uint64 // bytes of memory that one may hold to be kept

	mu   sync.Mutex
	Idle []*sstable.Writer
}

func NewSpareWriters(most int, mostKept uint64) *SpareWriters {
	return &SpareWriters{most: most, mostKept: mostKept}
}

// take returns a writer of a table to file, one that made such filters before if there is one.
func (s *SpareWriters) take(file vfs.File, o sstable.WriterOptions) *sstable.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.Idle)
	if n == 0 {
		return sstable.NewWriter(file, o)
	}
	i := max(slices.IndexFunc(s.Idle, func(w *sstable.Writer) bool { return w.MakesFilter(o.Filter) }), 0)
	w := s.Idle[i]
	s.Idle = slices.Delete(s.Idle, i, i+1)
	w.Reset(file)
	w.SetFilter(o.Filter)
	return w
}

// give takes back a writer that has finished, unless there are enough already, or it would
// keep more than mostKept bytes.
func (s *SpareWriters) give(w *sstable.Writer) {
	if w.MemoryKept() > s.mostKept {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Idle) < s.most {
		s.Idle = append(s.Idle, w)
	}
}

// EndTable finishes the open table.
func (t *Writer) EndTable() error {
	props, err := t.w.Finish()
	if err != nil {
		return err
	}
	err = t.endFile()
	f := manifest.NewFileMeta(t.num, t.w.Size(), t.w.Smallest(), bytes.Clone(t.w.Largest()))
	f.Handle = HandleOf(t.w)
	f.Counts.Store(countsOf(&props))
	f.Seqs.Store(seqsOf(&props))
	t.Files = append(t.Files, f)
	t.options.Spares.give(t.w)
	t.w = nil
	return err
}

// endFile syncs and closes the open table's file, or has that done.
func (t *Writer) endFile() error {
	file := t.file
	t.file = nil
	if t.options.Syncs != nil {
		return t.options.Syncs.Add(file)
	}
	return errors.CombineErrors(file.Sync(), file.Close())
}

// Finish ends the open table, makes the names of all durable and returns them.
// After an error no file is left.
func (t *Writer) Finish() ([]*manifest.FileMeta, error) {
	err := error(nil)
	if t.w != nil {
		err = t.EndTable()
	}
	if err == nil && len(t.Files) > 0 {
		err = t.options.Dir.FS.SyncDir(t.options.Dir.Path)
	}
	if err != nil {
		t.Abandon()
		return nil, errors.Wrap(err, "sievedb: writing tables")
	}
	return t.Files, nil
}

// Abandon removes all that was written.
func (t *Writer) Abandon() {
	if t.file != nil {
		_ = t.file.Close() // the file goes away
		t.file = nil
	}
	if t.w != nil {
		t.options.Dir.Remove(t.path(t.num))
		t.w = nil
	}
	for _, f := range t.Files {
		t.options.Dir.Remove(t.path(f.Num))
	}
	t.Files = nil
}
