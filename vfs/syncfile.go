package vfs

import (
	"io/fs"
	"os"
	"runtime"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// FileSyncer is implemented by a file system that can sync a file which another program, or an
// earlier process, has written. OS and Mem implement it.
type FileSyncer interface {
	// SyncFile makes the bytes of an existing plain file durable, but not its name.
	SyncFile(name string) error
}

// ErrNoFileSync is the error of SyncFile for a file system that does not implement FileSyncer.
var ErrNoFileSync = errors.Sentinel("sievedb: the file system cannot sync a file by its name")

// SyncFile makes the bytes of an existing plain file durable, but not its name. It returns
// ErrNoFileSync if fsys is no FileSyncer; a copy of the file can be synced instead.
func SyncFile(fsys FS, name string) error {
	if s, ok := fsys.(FileSyncer); ok {
		return s.SyncFile(name)
	}
	return ErrNoFileSync
}

// SyncFile implements FileSyncer.
func (osFS) SyncFile(name string) error {
	flags := os.O_RDONLY
	if runtime.GOOS == "windows" { // FlushFileBuffers needs the right to write
		flags = os.O_RDWR
	}
	f, err := openPlain("sync", name, flags, 0)
	if err != nil {
		return err
	}
	return renamed("sync", errors.Join(syncData(f), f.Close()))
}

// SyncFile implements FileSyncer.
func (m *Mem) SyncFile(name string) error {
	m.mu.RLock()
	n, err := m.fileLocked(name)
	m.mu.RUnlock()
	if err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.syncLocked()
	return nil
}
