//go:build unix

package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/internal/base"
)

// lockFile keeps the file open, with its locks on that one descriptor, while any caller in this process holds the lock.
//
// A table of this process's locks, by device and inode, is checked before the kernel's locks.
// It refuses a second holder whatever path was used, with an error that says that it is this
// process; shared holders use one descriptor; and a locked file is not opened again, because
// with ordinary fcntl locks closing any descriptor of the file would release them all.
func lockFile(name string, shared bool, mode fs.FileMode) (io.Closer, error) {
	locksOfProcess.mu.Lock()
	defer locksOfProcess.mu.Unlock()
	open := func() (*os.File, error) { return openLockFile(name, shared, mode) }
	lock, err := locksOfProcess.takeLocked(name, shared, open)
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	return &lockHandle{name: name, lock: lock}, nil
}

// inode is a file's identity within the system.
type inode struct{ dev, ino uint64 }

// inodeOf returns the identity of a file from package os's description of it.
func inodeOf(info fs.FileInfo) inode {
	st := info.Sys().(*syscall.Stat_t)
	return inode{uint64(st.Dev), uint64(st.Ino)} // their types differ by system
}

// heldLock is a lock that this process holds, with the descriptor that has it.
type heldLock struct {
	file    *os.File
	id      inode
	shared  bool
	holders int // one unless shared; guarded by lockTable.mu
}

type lockTable struct {
	mu   sync.Mutex // guards held and the holders of its locks; also held while locking
	held map[inode]*heldLock
}

var locksOfProcess = lockTable{held: make(map[inode]*heldLock)}

// lockAttempts limits how often a lock is tried on a file that is replaced each time between opening and locking it.
const lockAttempts = 100

var errReplaced = fmt.Errorf("%w: other processes keep replacing the file; try again", base.ErrLocked)

// takeLocked returns the lock with one more holder, or nil if Lock succeeds without a lock.
// open opens or makes the file. Its caller must hold t.mu. Errors contain no path.
func (t *lockTable) takeLocked(name string, shared bool, open func() (*os.File, error)) (h *heldLock, err error) {
	for range lockAttempts {
		if h, err = t.tryLocked(name, shared, open); !errors.Is(err, errReplaced) {
			break
		}
	}
	return h, err
}

func (t *lockTable) tryLocked(name string, shared bool, open func() (*os.File, error)) (*heldLock, error) {
	if info, err := os.Lstat(name); err == nil {
		if err := notPlain(info.Mode()); err != nil {
			return nil, err
		}
		if h := t.held[inodeOf(info)]; h != nil {
			return h, h.join(shared)
		}
	}
	f, err := open()
	if f == nil {
		return nil, err
	}
	id, err := acquire(f, name, shared)
	if err != nil {
		return nil, errors.Join(err, closeUnlocked(f))
	}
	h := &heldLock{file: f, id: id, shared: shared, holders: 1}
	t.held[id] = h
	return h, nil
}

func (h *heldLock) join(shared bool) error {
	if !h.shared || !shared {
		return fmt.Errorf("%w: this process has it open already; close it there first", base.ErrLocked)
	}
	h.holders++
	return nil
}

// openLockFile opens or makes the file without truncating it. An exclusive fcntl lock needs a
// descriptor open for writing, a shared one only a descriptor open for reading. For a shared
// lock on a file that is missing and cannot be made, it returns nil and no error.
func openLockFile(name string, shared bool, mode fs.FileMode) (*os.File, error) {
	if !shared {
		f, err := openPlain("lock", name, os.O_RDWR|os.O_CREATE, mode)
		return f, withoutPath(err)
	}
	f, err := openPlain("lock", name, os.O_RDONLY, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, withoutPath(err)
	}
	f, err = openPlain("lock", name, os.O_RDWR|os.O_CREATE, mode)
	if base.IsWriteRefused(err) {
		return nil, nil
	}
	return f, withoutPath(err)
}

func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// acquire acquires the kernel's locks and checks that name is still the locked file. If it is
// not, the error is errReplaced: RemoveLock may have removed the file since it was opened, and a
// lock on a removed file would exclude no process.
func acquire(f *os.File, name string, shared bool) (inode, error) {
	if err := lockFamilies(f, shared); err != nil {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			err = fmt.Errorf("%w: another process has it open; close it there first", base.ErrLocked)
		}
		return inode{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return inode{}, withoutPath(err)
	}
	now, err := os.Lstat(name)
	if err != nil || !os.SameFile(info, now) {
		return inode{}, errReplaced
	}
	return inodeOf(info), nil
}

// closeUnlocked releases the locks and closes the file. Closing alone is not enough: the locks belong to the open file,
// and a child process that another goroutine is starting has a descriptor of it until it executes its program. Until
// then, a lock that outlives Close would refuse the next process that opens the directory.
func closeUnlocked(f *os.File) error {
	unlockFamilies(f)
	return f.Close()
}

// lockHandle is one holder's share of a lock.
type lockHandle struct {
	name string
	lock *heldLock // nil: a lock on nothing; guarded by locksOfProcess.mu
	done bool      // guarded by locksOfProcess.mu
}

// Close releases this holder's share; the last holder's Close releases all kernel locks and closes the descriptor.
func (l *lockHandle) Close() error {
	locksOfProcess.mu.Lock()
	defer locksOfProcess.mu.Unlock()
	if l.done {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	l.done = true
	if l.lock == nil {
		return nil
	}
	l.lock.holders--
	if l.lock.holders > 0 {
		return nil
	}
	delete(locksOfProcess.held, l.lock.id)
	return renamed("unlock", closeUnlocked(l.lock.file))
}

// retryEINTR repeats a call that a signal interrupted, as the Go runtime does.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
