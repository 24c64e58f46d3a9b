package follow

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Lag returns what the published view lacks of what the files have. It reads what was added, but does not
// apply it. If the database was replaced by an older one, the error is that of Refresh.
func (f *Follower) Lag() (lag report.Lag, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.reading == nil {
		return lag, base.ErrClosed
	}
	now := time.Now()
	unread, err := f.tail.Unread()
	if err != nil {
		return lag, err
	}
	logs, logNum := f.logs, f.reading.LogNum
	if unread.Replaced { // logs with the same numbers may be other files
		logNum, logs.open = unread.LogNum, nil
		if logs.fs, err = f.o.FindLogs(); err != nil {
			return lag, err
		}
	}
	bytes, last, err := f.unreadLogs(logs, logNum)
	if err != nil {
		return lag, err
	}
	last = max(last, unread.LastSeq)
	if unread.Replaced && last < f.seq {
		// Either the database is an older one, or the writer has just flushed the rest of a log to a table.
		if err := f.confirmOrder(); err != nil {
			return lag, err
		}
	}
	lag.Seq, lag.Bytes = f.seq, unread.Bytes+bytes
	lag.Operations = max(last, f.seq) - f.seq
	if lag.Bytes > 0 {
		lag.Time = now.Sub(f.complete)
	}
	return lag, nil
}

// confirmOrder reads what Refresh would read, and returns the error of Refresh if that is older than the view.
func (f *Follower) confirmOrder() error {
	return f.step(func(s *step) error {
		if _, err := s.read(context.Background()); err != nil && !IsGap(err) {
			return err
		}
		return s.checkOrder()
	})
}

// unreadLogs returns how many bytes of the logs, from the one with the given number on, were not read yet, and the last
// operation in them.
func (f *Follower) unreadLogs(logs logSet, from uint64) (bytes int64, last uint64, err error) {
	names, err := logs.fs.List(f.o.Dir)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || kind != base.FileLog || num < from {
			continue
		}
		more, seq, err := logs.unread(num, filepath.Join(f.o.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a log that is gone is in tables
			return 0, 0, err
		}
		bytes += more
		last = max(last, seq)
	}
	return bytes, last, nil
}

// unread returns how many bytes of a log were not read, and the last operation in them, 0 if there is none.
func (s logSet) unread(num uint64, path string) (bytes int64, last uint64, err error) {
	var file vfs.File
	from := int64(0)
	if l := find(s.open, num); l != nil {
		file, from = l.file, l.log.End()
	} else {
		if file, err = s.fs.Open(path); err != nil {
			return 0, 0, err
		}
		defer file.Close()
	}
	size, err := file.Size()
	if err != nil || size <= from {
		return 0, 0, err
	}
	log := wal.NewReader(file, 0, wal.ReaderOptions{Last: true, Live: true})
	log.Continue(from, size)
	for {
		record, err := log.Next()
		if err == io.EOF || base.IsUnreadable(err) { // Refresh reports it
			return log.End() - from, last, nil
		}
		if err != nil {
			return 0, 0, base.InFile(err, path, -1)
		}
		if b, err := batch.NewReader(record); err == nil && b.Count > 0 {
			last = b.Seq + uint64(b.Count) - 1
		}
	}
}
