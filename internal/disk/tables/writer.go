package tables

import (
	"bytes"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// WriterOptions say where and how tables are written.
type WriterOptions struct {
	Dir Directory
	// Kind is the kind of the files, for their names.
	Kind base.FileKind
	// NewFileNum returns the number of the next file.
	NewFileNum func() uint64
	// Table applies to all tables.
	Table sstable.WriterOptions
	// Filter, if not nil, returns the filter policy of a table and replaces Table.Filter.
	Filter func(fileNum uint64) filter.Policy
	// Spares has writers to reuse.
	Spares *SpareWriters
	// Separate is the size in bytes from which on values go to value tables; 0: none do.
	Separate int
	// ValueCompression is that of value tables, which no compaction writes again.
	ValueCompression sstable.Compression
	// Stays, if not nil, reports whether the value of a user key stays there all the same.
	Stays func(user []byte) bool
	// Syncs, if not nil, syncs finished tables in the background. With nil a table is synced when it is finished.
	Syncs *Syncs
}

// Writer writes entries, which must be added in the order of internal keys, to one table after another. Each file is
// synced when it is finished, and the directory in Finish. A Writer belongs to one goroutine.
type Writer struct {
	options WriterOptions
	Files   []*version.FileMeta // finished

	num  uint64 // of the open table
	file vfs.File
	w    *sstable.Writer

	values *separated // nil until a value goes there
}

// NewWriter returns a Writer without a table. Add begins one.
func NewWriter(o WriterOptions) *Writer { return &Writer{options: o} }

// SetFilter changes the filter policy for tables that are begun from now on.
func (t *Writer) SetFilter(policy func(fileNum uint64) filter.Policy) { t.options.Filter = policy }

// Open reports whether a table has been begun and not ended.
func (t *Writer) Open() bool { return t.w != nil }

// Size returns the bytes of the open table so far.
func (t *Writer) Size() uint64 { return t.w.EstimatedSize() }

// Written returns the bytes of all tables so far, also of those of values.
func (t *Writer) Written() (total uint64) {
	if t.values != nil {
		total = t.values.Written()
	}
	for _, f := range t.Files {
		total += f.Size
	}
	if t.Open() {
		total += t.Size()
	}
	return total
}

// path returns the path of table num.
func (t *Writer) path(num uint64) string { return t.options.Dir.File(t.options.Kind, num) }

// Add adds an entry to the open table. It begins a table if none is open.
func (t *Writer) Add(ikey, value []byte) (err error) {
	if t.separates(ikey, value) {
		if ikey, value, err = t.separate(ikey, value); err != nil {
			return err
		}
	}
	if err := t.begin(); err != nil {
		return err
	}
	return t.w.Add(ikey, value)
}

// AddStored adds what Cache.StoredValue returned to a value table.
func (t *Writer) AddStored(ikey, stored []byte, length uint64) error {
	if err := t.begin(); err != nil {
		return err
	}
	return t.w.AddStored(ikey, stored, length)
}

// begin begins a table if none is open.
func (t *Writer) begin() error {
	if t.w != nil {
		return nil
	}
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
	if o.Values && o.IDs == nil {
		o.IDs = []uint64{t.num}
	}
	t.w = t.options.Spares.take(t.file, o)
	return nil
}

// CoverSeq records that the entry added last originally had that sequence number.
func (t *Writer) CoverSeq(seq uint64) { t.w.CoverSeq(seq) }

// SpareWriters keeps idle table writers for reuse, since the memory of a writer for blocks, index and filters grows
// with the table. It is not a sync.Pool: the runtime would keep that, and the store that refers to it, for two garbage
// collections after the last use. A program that opens and closes one store after another would use ever more memory.
type SpareWriters struct {
	mu      sync.Mutex
	maxIdle int    // how many are kept
	maxKept uint64 // bytes of memory that a kept writer may have
	Idle    []*sstable.Writer
}

// NewSpareWriters returns an empty SpareWriters, which keeps at most maxIdle writers, with at
// most maxKept bytes of memory each.
func NewSpareWriters(maxIdle int, maxKept uint64) *SpareWriters {
	return &SpareWriters{maxIdle: maxIdle, maxKept: maxKept}
}

// take returns a writer that writes a table to file. It prefers one that made the same filters before.
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
	w.SetBlocks(o.BlockSize, o.BlockRestartInterval, o.Compression)
	w.SetValues(o.Values, o.IDs)
	return w
}

// Resize changes how many writers are kept, and with how much memory each. Those above the limits are released.
func (s *SpareWriters) Resize(maxIdle int, maxKept uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxIdle, s.maxKept = maxIdle, maxKept
	s.Idle = slices.DeleteFunc(s.Idle, func(w *sstable.Writer) bool { return w.MemoryKept() > maxKept })
	clear(s.Idle[min(maxIdle, len(s.Idle)):])
	s.Idle = s.Idle[:min(maxIdle, len(s.Idle))]
}

// Trim releases all idle writers.
func (s *SpareWriters) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Idle = nil
}

// keep keeps a finished writer for reuse, unless there are maxIdle already or it has more than maxKept bytes of memory.
func (s *SpareWriters) keep(w *sstable.Writer) {
	memory := w.MemoryKept()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Idle) < s.maxIdle && memory <= s.maxKept {
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
	f := version.NewFileMeta(t.num, t.w.Size(), t.w.Smallest(), bytes.Clone(t.w.Largest()))
	f.Handle = HandleOf(t.w)
	f.SetCounts(countsOf(&props, t.w.Refs(), true))
	f.Seqs.Store(seqsOf(&props))
	if t.options.Table.Values {
		f.SetValueBytes(props.RawValueBytes)
	}
	t.Files = append(t.Files, f)
	t.options.Spares.keep(t.w)
	t.w = nil
	return err
}

// endFile syncs and closes the open table's file, possibly in the background.
func (t *Writer) endFile() error {
	file := t.file
	t.file = nil
	if t.options.Syncs != nil {
		return t.options.Syncs.Add(file)
	}
	return errors.CombineErrors(file.Sync(), file.Close())
}

// Finish finishes the open table, syncs the directory and returns all tables. If it fails, it removes their files.
func (t *Writer) Finish() ([]*version.FileMeta, error) {
	err := error(nil)
	if t.w != nil {
		err = t.EndTable()
	}
	if err == nil && t.values != nil && t.values.w != nil {
		err = t.values.EndTable()
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

// Abandon removes the files of all tables, also those of values.
func (t *Writer) Abandon() {
	if t.values != nil {
		t.values.Abandon()
	}
	if t.file != nil {
		_ = t.file.Close() // the file will be removed
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
