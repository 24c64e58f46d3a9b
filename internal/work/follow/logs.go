package follow

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
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
	file vfs.File // open, so that it can be read after its removal
	log  *wal.Reader
	last uint64 // the last operation that was read from it, 0 for none
	// looked is the size up to which appended has looked.
	looked int64
	// mems are the entries that were read, the oldest first. Readers have the first published ones.
	mems      []*memtable.Memtable
	published int
	inserter  memtable.Inserter
}

// gapError says that a log continues after operations that were not read.
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
		if needed(l.num) { // it may have been removed from the directory; then a later edit does not need it
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
	l.log = wal.NewReader(l.file, 0, wal.ReaderOptions{Last: true, Live: true})
	l.log.Continue(off, 0)
}

// readLogs reads the new records of the logs. If apart is set, they must not be added to published memtables.
func (f *Follower) readLogs(r *manifest.Reading, logs []*logTail, apart bool) error {
	last := uint64(0) // the last operation that was read from a log
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
				if record, err = l.appended(size, max(last, r.LastSeq)+1); record == nil && err == nil {
					break
				}
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

// appended returns the record with the number next if another program has appended it behind the space that a killed
// writer has reserved; see wal.Reader.FindAppended. Otherwise it returns nil. size is that of the log, which is at its
// end.
func (l *logTail) appended(size int64, next uint64) ([]byte, error) {
	if size <= l.looked {
		return nil, nil
	}
	l.looked = size
	found, err := l.log.FindAppended(func(record []byte) bool {
		b, err := batch.NewReader(record)
		return err == nil && b.Seq == next
	})
	if !found || err != nil {
		return nil, err
	}
	l.log.Skip()
	return l.log.Next()
}

// add adds a record of a log to its memtables. known is the last operation that the version or a log has, last the last
// one in a log.
func (f *Follower) add(l *logTail, record []byte, known, last uint64, apart bool) error {
	unread := uint64(l.log.Ahead()) + uint64(len(record))
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
		l.thin(f)
		if !l.hasRoom(memSize, apart) {
			l.begin(f, memSize, unread)
		}
	}
	for {
		kind, key, value, seq, ok, err := b.Next()
		if err != nil || !ok {
			break // Check has decoded all of it
		}
		if l.newest().AddWith(&l.inserter, seq, kind, key, value) {
			continue
		}
		l.begin(f, uint64(memtable.EntrySize(len(key), len(value))), unread)
		l.newest().AddWith(&l.inserter, seq, kind, key, value)
	}
	l.last = next - 1
	return nil
}

func (l *logTail) newest() *memtable.Memtable { return l.mems[len(l.mems)-1] }

// hasRoom reports whether the newest memtable has room for a batch. apart says that it must not be published.
func (l *logTail) hasRoom(memSize uint64, apart bool) bool {
	return len(l.mems) > 0 && !(apart && len(l.mems) == l.published) && uint64(l.newest().Available()) >= memSize
}

// The size of a memtable, in bytes. One that begins a log, or follows a published one, is small: it has
// room for what remains of the log. One that follows a full one is twice as large as that. A batch above
// maxMemtable is divided: no reader sees it before all of it is there.
const (
	minMemtable = 4 << 10
	maxBegin    = 256 << 10
	maxMemtable = 64 << 20
	// If a log has maxMemtables memtables, and the next records must not go to a published one, they are merged
	// into one.
	maxMemtables = 8
	entryGrowth  = 4 // how many times larger an entry can be in a memtable than in a log; usually much less
	// thin copies a full memtable if at least one part in minHidden of it are versions that no reader sees.
	minHidden = 8
)

// begin begins a memtable with a batch of memSize bytes. unread is about the number of bytes of the batch and of the
// records after it; space that is only reserved does not count.
func (l *logTail) begin(f *Follower, memSize, unread uint64) {
	size := min(max(minMemtable, entryGrowth*unread), maxBegin)
	switch n := len(l.mems); {
	case n > l.published:
		size = max(size, min(2*uint64(l.newest().Capacity()), uint64(f.o.MemtableSize)))
	case n >= maxMemtables:
		size = max(size, l.merge(f, memSize))
		if uint64(l.newest().Available()) >= memSize {
			return
		}
	}
	size = max(size, min(memSize, maxMemtable)+memtable.Slack)
	l.mems = append(l.mems, memtable.New(f.o.Manifest.Cmp, int(size)))
}

// merge copies all entries of the log to a new memtable that has room for more, and returns its size. Readers do not
// have the new memtable yet.
func (l *logTail) merge(f *Follower, more uint64) (size uint64) {
	size = more + memtable.Slack
	for _, m := range l.mems {
		size += uint64(m.Size())
	}
	size += size / 4
	to := memtable.New(f.o.Manifest.Cmp, int(size))
	var inserter memtable.Inserter
	for _, m := range l.mems {
		for ikey, value := range m.All() {
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			if !to.AddWith(&inserter, seq, kind, base.UserKey(ikey), value) {
				return size // towers have random heights; the next attempt has another chance
			}
		}
	}
	l.mems, l.published = []*memtable.Memtable{to}, 0
	l.inserter.Reset()
	return size
}

// thin removes the versions that no reader will see from the newest memtable, if they use enough of its memory: a log
// may have very many short entries for few keys. The memtable is full, and not published.
func (l *logTail) thin(f *Follower) {
	if len(l.mems) == l.published {
		return
	}
	from, hidden := l.newest(), 0
	each := func(do func(ikey, value []byte)) {
		var before []byte
		for ikey, value := range from.All() {
			if before == nil || f.o.Manifest.Cmp.Compare(base.UserKey(before), base.UserKey(ikey)) != 0 {
				do(ikey, value)
			}
			before = ikey // in the arena
		}
	}
	hidden = from.Size()
	each(func(ikey, value []byte) { hidden -= memtable.EntrySize(len(base.UserKey(ikey)), len(value)) })
	if hidden < from.Capacity()/minHidden {
		return
	}
	to := memtable.New(f.o.Manifest.Cmp, from.Capacity())
	var inserter memtable.Inserter
	fits := true
	each(func(ikey, value []byte) {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		fits = fits && to.AddWith(&inserter, seq, kind, base.UserKey(ikey), value)
	})
	if fits {
		l.mems[len(l.mems)-1] = to
		l.inserter.Reset()
	}
}
