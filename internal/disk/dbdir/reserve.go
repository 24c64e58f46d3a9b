package dbdir

import (
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// ReserveName is the name of a Reserve's file. No engine knows it.
const ReserveName = "RESERVE"

// Reserve is a file that uses space of the disk until the disk is full: then it is removed, so that there is room for
// what frees more. Its methods may be called from any goroutine, and on nil, which is no reserve.
type Reserve struct {
	fs        vfs.FS
	dir       string
	sizeBytes int64
	minTables uint64

	mu       sync.Mutex // held while the file is written
	freed    bool       // and not wanted again yet
	made     bool       // the file is there
	failures int        // of Keep, since the last success
	pause    int        // calls of Due until the next attempt
}

// NewReserve returns the Reserve of a database's directory. Its file may be there already. It is made once the tables
// have minTables bytes, and removed if they have less than half of that later.
func NewReserve(fsys vfs.FS, dir string, sizeBytes int64, minTables uint64) *Reserve {
	return &Reserve{fs: fsys, dir: dir, sizeBytes: sizeBytes, minTables: minTables}
}

// autoRatio is how many times the reserve's size the tables have before one is made by itself.
const autoRatio = 16

// ReserveFor returns the Reserve that Options.Limits.DiskReserve, given as wanted, asks for: nil if it is negative. By
// default it has room for memtables of that size together, and what comes with their flush.
func ReserveFor(fsys vfs.FS, dir string, wanted, memtables int64) *Reserve {
	switch {
	case wanted < 0:
		return nil
	case wanted > 0:
		return NewReserve(fsys, dir, wanted, 0)
	}
	size := memtables + 1<<20
	return NewReserve(fsys, dir, size, autoRatio*uint64(size))
}

// BeginReserve prepares the reserve of a store that is open for writing. freed says that Open has freed it. It logs a
// failure.
func (d *Dir) BeginReserve(freed bool, stopped func() bool, logger *slog.Logger) {
	switch r := d.Reserve; {
	case r == nil:
		if err := RemoveReserve(d.FS, d.Path); err != nil {
			logger.Warn("the reserve for a full disk cannot be removed", "err", err)
		}
	case freed:
		r.Freed()
	case r.minTables == 0: // its size was asked for
		d.KeepReserve(0, stopped, logger)
	}
}

// KeepReserve is Reserve.Keep for a directory that is still the store's. It logs a failure.
func (d *Dir) KeepReserve(tables uint64, stopped func() bool, logger *slog.Logger) {
	err := d.Verify()
	if err == nil {
		err = d.Reserve.Keep(tables, stopped)
	}
	if err != nil {
		logger.Warn("the reserve for a full disk cannot be made; a later flush tries again", "err", err)
	}
}

// RemoveReserve removes the file of an earlier Reserve, if there is one.
func RemoveReserve(fsys vfs.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, ReserveName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *Reserve) path() string { return filepath.Join(r.dir, ReserveName) }

// Size returns the size of the file in bytes, 0 for nil.
func (r *Reserve) Size() int64 {
	if r == nil {
		return 0
	}
	return r.sizeBytes
}

// Due reports whether Keep has something to do when the tables have that many bytes. It does not wait for a Keep that
// is running. After an error of Keep it is false for a number of calls, which doubles: an attempt fills the disk.
func (r *Reserve) Due(tables uint64) bool {
	if r == nil || !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	switch {
	case tables < r.minTables/2:
		return r.made
	case r.made || r.freed || tables < r.minTables:
		return false
	case r.pause > 0:
		r.pause--
		return false
	}
	return true
}

// Keep makes the file if it is not there, and was not freed since the last call of WantAgain. It does so with random
// bytes, which no file system compresses. It removes the file if tables, their bytes, are few. It ends early, without a
// file, when stopped returns true. After an error there is no file.
func (r *Reserve) Keep(tables uint64, stopped func() bool) (err error) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case tables < r.minTables/2:
		r.made = false
		return RemoveReserve(r.fs, r.dir)
	case r.made || r.freed || tables < r.minTables:
		return nil
	}
	if info, err := r.fs.Lstat(r.path()); err == nil && info.Mode().IsRegular() && info.Size() == r.sizeBytes {
		r.made = true
		return nil
	}
	if free, known := vfs.FreeBytes(r.fs, r.dir); known && free < 2*uint64(r.sizeBytes) {
		err = errors.Newf("%s: %d bytes are free, want at least %d, twice its size, so that other writes do not fail meanwhile",
			r.path(), free, 2*r.sizeBytes)
	} else {
		r.made, err = r.write(stopped)
	}
	if err != nil {
		r.failures = min(r.failures+1, 6)
		r.pause = 1<<r.failures - 1
	} else {
		r.failures = 0
	}
	return err
}

func (r *Reserve) write(stopped func() bool) (made bool, err error) {
	f, err := vfs.Replace(r.fs, r.path())
	if err != nil {
		return false, err
	}
	random := rand.NewChaCha8([32]byte{})
	buf := make([]byte, min(r.sizeBytes, 256<<10))
	for left := r.sizeBytes; left > 0 && err == nil && !stopped(); left -= int64(len(buf)) {
		buf = buf[:min(left, int64(len(buf)))]
		_, _ = random.Read(buf) // it never fails
		_, err = f.Write(buf)
	}
	made = err == nil && !stopped()
	if made {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil && made {
		err = r.fs.SyncDir(r.dir)
	}
	if err != nil || !made {
		return false, errors.CombineErrors(err, r.fs.Remove(r.path()))
	}
	return true, nil
}

// Free removes the file, and reports whether there was one.
func (r *Reserve) Free() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = false
	if r.fs.Remove(r.path()) != nil {
		return false
	}
	r.freed = true
	_ = r.fs.SyncDir(r.dir) // some file systems free the space then
	return true
}

// Used reports whether the file was removed, by Free or by an earlier Reserve, and is not wanted again yet.
func (r *Reserve) Used() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freed
}

// Freed says that an earlier Reserve of the same directory was freed.
func (r *Reserve) Freed() { r.setFreed(true) }

// WantAgain says that space was freed: the next call of Keep may make the file.
func (r *Reserve) WantAgain() { r.setFreed(false) }

func (r *Reserve) setFreed(freed bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed, r.failures, r.pause = freed, 0, 0
}
