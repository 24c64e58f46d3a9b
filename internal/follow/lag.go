package follow

import (
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Lag returns what the published view lacks of what the files have. It reads what was added, but does not
// apply it.
func (f *Follower) Lag() (lag report.Lag, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.reading == nil {
		return lag, base.ErrClosed
	}
	now := time.Now()
	lag.Seq = f.seq
	last := f.seq
	if lag.Bytes, err = f.tail.Unread(); err != nil {
		return lag, err
	}
	names, err := f.logs.fs.List(f.o.Dir)
	if err != nil {
		return lag, err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || kind != base.FileLog || num < f.reading.LogNum {
			continue
		}
		bytes, seq, err := f.unreadLog(num, filepath.Join(f.o.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a log that is gone is in tables
			return lag, err
		}
		lag.Bytes += bytes
		last = max(last, seq)
	}
	lag.Operations = last - f.seq
	if lag.Bytes > 0 {
		lag.Time = now.Sub(f.complete)
	}
	return lag, nil
}

// unreadLog returns how many bytes of a log were not read, and the last operation in them, 0 if there
// is none.
func (f *Follower) unreadLog(num uint64, path string) (bytes int64, last uint64, err error) {
	var file vfs.File
	from := int64(0)
	if l := find(f.logs.open, num); l != nil {
		file, from = l.file, l.log.End()
	} else {
		if file, err = f.logs.fs.Open(path); err != nil {
			return 0, 0, err
		}
		defer file.Close()
	}
	size, err := file.Size()
	if err != nil || size <= from {
		return 0, 0, err
	}
	log := wal.NewReader(file, 0, wal.ReaderOptions{Last: true})
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
