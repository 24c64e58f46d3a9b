package dbdir

import (
	"math/rand/v2"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/internal/errors"
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

	mu    sync.Mutex
	freed bool // and not wanted again yet
	made  bool
	// failures counts attempts to make the file since the last success. skip is how many calls of Make do nothing.
	failures, skip int
}

// maxSkip bounds how many calls of Make do nothing after an attempt that failed.
const maxSkip = 1 << 10

// NewReserve returns the Reserve of a database's directory, nil if sizeBytes is 0. Its file may be there already.
func NewReserve(fsys vfs.FS, dir string, sizeBytes int64) *Reserve {
	if sizeBytes == 0 {
		return nil
	}
	return &Reserve{fs: fsys, dir: dir, sizeBytes: sizeBytes}
}

func (r *Reserve) path() string { return filepath.Join(r.dir, ReserveName) }

// Make makes the file if it is not there, and was not freed since the last call of WantAgain. It does so with random
// bytes, which no file system compresses. After an error there is no file. An attempt on a disk without room for it
// writes all that is free, and other writes may fail meanwhile: the more attempts have failed, the more calls do nothing
// before the next one.
func (r *Reserve) Make() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made || r.freed {
		return nil
	}
	if info, err := r.fs.Lstat(r.path()); err == nil && info.Mode().IsRegular() && info.Size() == r.sizeBytes {
		r.made = true
		return nil
	}
	if r.skip > 0 {
		r.skip--
		return nil
	}
	err := r.write()
	if r.made = err == nil; r.made {
		r.failures = 0
	} else {
		r.skip = min(1<<min(r.failures, 30), maxSkip) - 1
		r.failures++
	}
	return err
}

func (r *Reserve) write() error {
	f, err := vfs.Replace(r.fs, r.path())
	if err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{})
	buf := make([]byte, min(r.sizeBytes, 256<<10))
	for left := r.sizeBytes; left > 0 && err == nil; left -= int64(len(buf)) {
		buf = buf[:min(left, int64(len(buf)))]
		_, _ = random.Read(buf) // it never fails
		_, err = f.Write(buf)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	if err != nil {
		err = errors.CombineErrors(err, r.fs.Remove(r.path()))
	}
	return err
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

// WantAgain says that space was freed: after Free, the next call of Make makes the file.
func (r *Reserve) WantAgain() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		r.freed, r.failures, r.skip = false, 0, 0
	}
}
