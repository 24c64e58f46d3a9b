package changes

import (
	"bytes"
	"io"
	"io/fs"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Source knows the segments: an Archive, or a Directory.
type Source interface {
	// find returns the segment that has the change after position, or the last one before it. The error is a *GoneError
	// if no segment has that change, but one has a later change. limit is that of Reader.Next.
	find(position, limit uint64) (*segment, error)
	// atEnd is called when a reader finds no change after position, although changes up to limit exist. It returns the
	// reader's error, if that is one.
	atEnd(position, limit uint64) error
	// settle waits until no file is being moved.
	settle()
	// hintFor returns an offset in a log at or before the record that follows a position.
	hintFor(path string, position uint64) (offset int64)
	// recordHint records the offset at which the record after a position begins.
	recordHint(path string, position uint64, offset int64)
}

// ReaderOptions configure a Reader.
type ReaderOptions struct {
	FS     vfs.FS
	Cmp    *base.Comparer
	Expiry *expiry.Policy
	// Prefix limits the changes to those with an entry under it; nil means all.
	Prefix []byte
}

// Reader yields the changes after a position, one after the other. It is used by one goroutine at a time.
type Reader struct {
	o        ReaderOptions
	src      Source
	position uint64
	skipped  uint64 // the first number of the changes that were skipped since the last yielded one; 0: none
	limit    uint64 // of Next
	// stale is true if limit has changed, so that the open log may have ended in the meantime.
	stale bool
	// failed is true after an error, when the log may have been read beyond position.
	failed bool

	seg    *segment // nil: to be found
	event  *Event   // of seg, if it has a file of its own
	read   uint64   // the last number that was read from the open log, 0 if none was read
	file   vfs.File
	log    *wal.Reader
	size   int64
	looked int64 // the size up to which appended has looked
	change Change
}

// NewReader returns a Reader of the changes after a position. It must be closed.
func NewReader(src Source, position uint64, o ReaderOptions) *Reader {
	return &Reader{o: o, src: src, position: position, change: Change{content: content{o.FS, o.Cmp, o.Expiry}}}
}

// Position returns the number of the last change that was read.
func (r *Reader) Position() uint64 { return r.position }

// Next returns the next change up to limit, or nil if there is none yet. The change is valid until the next
// call. With a prefix, a change of the kind Skipped comes last if the last changes had no entry under it.
func (r *Reader) Next(limit uint64) (*Change, error) {
	if r.limit != limit {
		r.limit, r.stale = limit, true
	}
	for r.position < limit {
		c, err := r.next()
		if err != nil {
			return nil, err
		}
		if c == nil {
			if err := r.src.atEnd(r.position, limit); err != nil {
				return nil, err
			}
			break
		}
		wanted, err := r.wanted(c)
		if wanted || err != nil {
			r.skipped = 0
			return c, err
		}
		if r.skipped == 0 {
			r.skipped = c.First
		}
	}
	if r.skipped > 0 {
		r.change = Change{Kind: Skipped, First: r.skipped, Last: r.position, content: r.change.content}
		r.skipped = 0
		return &r.change, nil
	}
	return nil, nil
}

// wanted reports whether a change may have an entry under the prefix.
func (r *Reader) wanted(c *Change) (bool, error) {
	if len(r.o.Prefix) == 0 {
		return true, nil
	}
	if c.Kind != Batch { // rare, and a part of it may be under the prefix
		return true, nil
	}
	b, err := batch.NewReader(c.Record)
	for err == nil {
		_, key, _, _, ok, nextErr := b.Next()
		if nextErr != nil || !ok {
			return false, nextErr
		}
		if bytes.HasPrefix(key, r.o.Prefix) {
			return true, nil
		}
	}
	return false, err
}

// next returns the next change, or nil if there is none.
func (r *Reader) next() (*Change, error) {
	if err := r.refresh(); err != nil {
		return nil, err
	}
	for {
		if r.seg == nil {
			if found, err := r.open(); !found || err != nil {
				return nil, err
			}
		}
		if r.seg.kind != Batch {
			return r.takeEvent(), nil
		}
		c, err := r.record()
		if c != nil || err != nil {
			r.failed = err != nil
			return c, err
		}
		if more, err := r.leave(); !more || err != nil {
			return nil, err
		}
	}
}

// refresh checks whether the open log has ended since the limit was raised. Its last records may then be those of
// failed writes, which must not be yielded, and later changes up to the limit are in the next log.
func (r *Reader) refresh() error {
	stale := r.stale
	r.stale = false
	if !stale || r.seg == nil || r.seg.last != unknown {
		return nil
	}
	now, err := r.src.find(r.position, r.limit)
	if err != nil {
		return err
	}
	if now.kind == Batch && now.first == r.seg.first {
		r.seg = now
		return nil
	}
	return r.end()
}

// leave is called at the end of the open log. If the log is complete, it closes it. If more records may be appended,
// more is false.
func (r *Reader) leave() (more bool, err error) {
	s := r.seg
	if s.last == unknown {
		now, err := r.src.find(r.position, r.limit)
		if err != nil {
			return false, err
		}
		if now.kind == Batch && now.first == s.first {
			r.seg = now // if the log has ended, its last records are still to be read
			return now.last != unknown, nil
		}
		return true, r.end()
	}
	if s.logged == unknown && r.position < s.last {
		return true, r.lookBetween()
	}
	if s.logged == unknown && r.position > s.last { // goleveldb does that after a sync that failed
		return false, &GoneError{s.last, r.position, "two logs have the same numbers"}
	}
	r.position = max(r.position, s.last) // with the numbers of writes that failed
	return true, r.end()
}

// lookBetween is called when numbers are missing between a log and the next segment. The segment with these numbers may
// have been renamed while the directory was listed; see Directory.find.
func (r *Reader) lookBetween() error {
	s := r.seg
	r.src.settle()
	now, err := r.src.find(r.position, r.limit)
	switch {
	case err != nil:
		return err
	case now.kind != Batch || now.first != s.first:
		return r.end()
	case now.last == s.last:
		return &GoneError{r.position, s.last, "numbers are missing between two logs"}
	}
	r.seg = now
	return nil
}

// open opens the segment with the change after the position.
func (r *Reader) open() (found bool, err error) {
	const attempts = 10 // a log may be moved before it is opened, and then the next one too
	missing := ""
	for range attempts {
		s, err := r.src.find(r.position, r.limit)
		if err != nil || s.last <= r.position {
			return false, err
		}
		err = r.openSegment(s)
		if !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
		if s.path == missing && s.last != unknown {
			return false, &GoneError{r.position, s.last, s.path + " was removed"}
		}
		missing = s.path
		r.src.settle()
	}
	return false, errors.Newf("sievedb: the files of the change feed change all the time; position %d cannot be opened", r.position)
}

func (r *Reader) openSegment(s *segment) (err error) {
	if s.kind != Batch {
		if r.event, err = readEvent(r.o.FS, s.path); err == nil {
			r.seg = s
		}
		return err
	}
	fsys := r.o.FS
	if s.fs != nil {
		fsys = s.fs
	}
	if r.file, err = fsys.Open(s.path); err != nil {
		r.file = nil
		return err
	}
	r.beginLog(r.src.hintFor(s.path, r.position))
	r.seg, r.read, r.looked = s, 0, 0
	return nil
}

// record returns the next change of a log, or nil at its present end.
func (r *Reader) record() (*Change, error) {
	for looked := false; r.seg.logged == unknown || r.position < r.seg.logged; {
		record, err := r.log.Next()
		if err == io.EOF {
			size, err := r.file.Size()
			if err != nil {
				return nil, err
			}
			if size > r.size || !looked { // records may replace zeros
				r.size, looked = size, true
				r.log.Continue(0, size)
				continue
			}
			if r.seg.logged == unknown {
				return r.appended(size)
			}
			err = base.Corruptf("log", r.log.End(), "it ends with number %d, but it had records up to %d", r.position, r.seg.logged)
			return nil, base.InFile(err, r.seg.path, -1)
		}
		if err != nil {
			return nil, base.InFile(err, r.seg.path, -1)
		}
		c, err := r.take(record)
		if c != nil || err != nil {
			return c, base.InFile(err, r.seg.path, r.log.Offset())
		}
	}
	return nil, nil
}

// appended returns the next change if another program has appended it behind the space that a killed writer has
// reserved; see wal.Reader.FindAppended. size is that of the log, which is at its end.
func (r *Reader) appended(size int64) (*Change, error) {
	if size <= r.looked {
		return nil, nil
	}
	r.looked = size
	next := r.read + 1
	if r.read == 0 {
		next = r.position + 1
	}
	found, err := r.log.FindAppended(func(record []byte) bool {
		b, err := batch.NewReader(record)
		return err == nil && b.Seq == next
	})
	if err != nil {
		return nil, base.InFile(err, r.seg.path, -1)
	}
	if !found {
		return nil, nil
	}
	r.log.Skip()
	record, err := r.log.Next()
	if err != nil {
		return nil, base.InFile(err, r.seg.path, r.log.End())
	}
	c, err := r.take(record)
	return c, base.InFile(err, r.seg.path, r.log.Offset())
}

// beginLog makes reading continue at an offset of the open log.
func (r *Reader) beginLog(off int64) {
	r.log, r.size = wal.NewReader(r.file, 0, wal.ReaderOptions{Last: true, Live: true}), 0
	r.log.Continue(off, 0)
}

// take returns a record as a change. It returns nil if the record is empty, before the position, or of a failed write.
func (r *Reader) take(record []byte) (*Change, error) {
	b, err := batch.NewReader(record)
	if err != nil {
		return nil, err
	}
	last := b.Seq + uint64(b.Count) - 1
	if b.Count == 0 {
		return nil, nil
	}
	if b.Seq <= r.read { // goleveldb does that after a sync that failed
		return nil, &GoneError{b.Seq - 1, max(last, r.position), "two records have the same number"}
	}
	r.read = last
	if last <= r.position {
		return nil, nil
	}
	if last > r.seg.logged { // a write that failed
		return nil, nil
	}
	if b.Seq > r.position+1 {
		return nil, &GoneError{r.position, b.Seq - 1, "a part of a log is missing"}
	}
	r.position = last
	r.change.Kind, r.change.First, r.change.Last = Batch, b.Seq, last
	r.change.Record, r.change.Ranges, r.change.Tables = record, nil, nil
	return &r.change, nil
}

// end closes the open file.
func (r *Reader) end() error {
	file := r.file
	r.file, r.log, r.seg = nil, nil, nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// takeEvent returns the change of a segment with a file of its own.
func (r *Reader) takeEvent() *Change {
	s, e := r.seg, r.event
	r.seg, r.event = nil, nil
	r.position = s.last
	r.change.Kind, r.change.First, r.change.Last = s.kind, s.first, s.last
	r.change.Record, r.change.Ranges, r.change.Tables = e.Own, e.Ranges, s.tables
	return &r.change
}

// Close ends the reading. It notes where it ended, so that a later Reader from the same position begins there.
func (r *Reader) Close() error {
	if r.log != nil && r.seg != nil && !r.failed {
		r.src.recordHint(r.seg.path, r.position, r.log.End())
	}
	return r.end()
}
