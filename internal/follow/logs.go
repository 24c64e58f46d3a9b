package follow

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// Memtable has entries of one log.
type Memtable struct {
	*memtable.Memtable
	LogNum uint64
}

// logTail is a log of which a part has been read.
type logTail struct {
	num  uint64
	path string
	file vfs.File // open: it can be read when it was removed
	log  *wal.Reader
	last uint64 // the last operation that was read from it, 0 for none
	// mems are the entries that were read, the oldest first. Readers have the first published ones.
	mems      []*memtable.Memtable
	published int
	inserter  memtable.Inserter
}

// gapError says that a log continues behind operations that were not read.
type gapError struct {
	path       string
	last, next uint64 // the last operation that was read, the one that follows
}

func (e *gapError) Error() string {
	return fmt.Sprintf("%s continues with operation %d, but the last one before it that can be read is %d. If the writer was killed, opening the database for "+
		"writing decides what becomes of the rest", e.path, e.next, e.last)
}

// neededLogs returns the logs that r needs, in their order: those of have, and others, which it opens.
func (f *Follower) neededLogs(have logSet, r *manifest.Reading) (logs []*logTail, missing bool, err error) {
	names, err := have.fs.List(f.o.Dir)
	if err != nil {
		return nil, false, err
	}
	needed := func(num uint64) bool { return num >= r.LogNum || num == r.PrevLogNum && num > 0 }
	for _, l := range have.open {
		if needed(l.num) { // perhaps it is not in the directory any more: then an edit follows
			logs = append(logs, l)
		}
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || kind != base.FileLog || !needed(num) || find(logs, num) != nil {
			continue
		}
		l := &logTail{num: num, path: filepath.Join(f.o.Dir, name)}
		if l.file, err = have.fs.Open(l.path); err != nil {
			closeLogs(logs, have.open)
			return nil, false, err
		}
		l.rewind(0)
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b *logTail) int { return cmp.Compare(a.num, b.num) })
	return logs, r.LogNum > 0 && find(logs, r.LogNum) == nil, nil
}

func find(logs []*logTail, num uint64) *logTail {
	for _, l := range logs {
		if l.num == num {
			return l
		}
	}
	return nil
}

// closeLogs closes the files of logs that are in none of keep.
func closeLogs(logs []*logTail, keep ...[]*logTail) {
	for _, l := range logs {
		if !slices.ContainsFunc(keep, func(k []*logTail) bool { return slices.Contains(k, l) }) {
			_ = l.file.Close() // it was only read
		}
	}
}

// rewind makes reading continue at off.
func (l *logTail) rewind(off int64) {
	l.log = wal.NewReader(l.file, 0, wal.ReaderOptions{Last: true})
	l.log.Continue(off, 0)
}

// readLogs reads what was added to the logs. apart says that it must not go to published memtables.
func (f *Follower) readLogs(r *manifest.Reading, logs []*logTail, apart bool) error {
	last := uint64(0) // that was read from a log
	for _, l := range logs {
		last = max(last, l.last)
		size, err := l.file.Size()
		if err != nil {
			return err
		}
		l.log.Continue(0, size)
		for {
			before := l.log.End()
			record, err := l.log.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = f.add(l, record, max(last, r.LastSeq), last, apart)
			}
			if err != nil {
				l.rewind(before)
				return base.InFile(err, l.path, before)
			}
			last = max(last, l.last)
		}
	}
	return nil
}

// add adds a record of a log to its memtables. known is the last operation that the version or a log
// has, last the last one of a log.
func (f *Follower) add(l *logTail, record []byte, known, last uint64, apart bool) error {
	next, memSize, err := batch.Check(record)
	if err != nil {
		return err
	}
	b, err := batch.NewReader(record)
	switch {
	case err != nil || b.Count == 0: // a preamble, or an empty batch
		return err
	case b.Seq > known+1:
		return &gapError{l.path, known, b.Seq}
	case b.Seq <= last:
		return base.Corruptf("batch", 0, "its sequence is %d, but an earlier record reaches to %d: the writer used a number again after an error. "+
			"The follower continues when the writer has flushed this log", b.Seq, last)
	}
	if apart = apart || b.Seq <= f.seq; !l.hasRoom(memSize, apart) {
		l.begin(f, memSize)
	}
	for {
		kind, key, value, seq, ok, err := b.Next()
		if err != nil || !ok {
			break // Check has decoded all of it
		}
		if l.newest().AddWith(&l.inserter, seq, kind, key, value) {
			continue
		}
		l.begin(f, uint64(memtable.EntrySize(len(key), len(value))))
		l.newest().AddWith(&l.inserter, seq, kind, key, value)
	}
	l.last = next - 1
	return nil
}

func (l *logTail) newest() *memtable.Memtable { return l.mems[len(l.mems)-1] }

// hasRoom reports whether the newest memtable has room for a batch. apart says that it must not be
// published.
func (l *logTail) hasRoom(memSize uint64, apart bool) bool {
	return len(l.mems) > 0 && !(apart && len(l.mems) == l.published) && uint64(l.newest().Available()) >= memSize
}

// minMemtable is the size of a memtable, in bytes, that begins a log or follows a published one. One that
// follows a full one is twice as large as that, so that a small log needs little memory, and a large one
// few memtables. A batch above maxMemtable is divided: no reader sees it before all of it is there.
const (
	minMemtable = 256 << 10
	maxMemtable = 64 << 20
)

// begin begins a memtable for a batch of memSize bytes.
func (l *logTail) begin(f *Follower, memSize uint64) {
	size := uint64(minMemtable)
	if n := len(l.mems); n > l.published {
		size = max(size, min(2*uint64(l.newest().Capacity()), uint64(f.o.MemtableSize)))
	}
	size = max(size, min(memSize, maxMemtable)+memtable.Slack)
	l.mems = append(l.mems, memtable.New(f.o.Manifest.Cmp, int(size)))
}
