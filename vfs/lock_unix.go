//go:build unix

package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/sievedb/sievedb/internal/errors"

	"github.com/sievedb/sievedb/internal/base"
)

// lockFile keeps the file open, with its locks on that one descriptor, for as
// long as anyone in this process holds the lock.
//
// A table of this process's locks, by device and inode, stands before the
// kernel's. It refuses the second holder whatever path it came by, in words
// that say that it is this very process; it lets shared holders share one
// descriptor; and it keeps us from opening a locked file again, since with plain
// fcntl locks the close of any descriptor of the file would drop them all.
func lockFile(name string, shared bool, mode fs.FileMode) (io.Closer, error) {
	locksOfProcess.mu.Lock()
	defer locksOfProcess.mu.Unlock()
	lock, err := locksOfProcess.takeLocked(name, shared, func() (*os.File, error) { return openLockFile(name, shared, mode) })
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	return &lockHandle{name: name, lock: lock}, nil
}

// inode is a file's identity within the system.
type inode struct{ dev, ino uint64 }

// inodeOf returns the identity of a file that package os described.
func inodeOf(info fs.FileInfo) inode {
	st := info.Sys().(*syscall.Stat_t)
	return inode{uint64(st.Dev), uint64(st.Ino)} // their types differ by system
}

// heldLock is a lock that this process has, with the descriptor that carries it.
type heldLock struct {
	file    *os.File
	id      inode
	shared  bool
	holders int // one unless shared; guarded by lockTable.mu
}

type lockTable struct {
	mu   sync.Mutex // guards held and each holders in it; also held while locking
	held map[inode]*heldLock
}

var locksOfProcess = lockTable{held: make(map[inode]*heldLock)}

// lockAttempts bounds how often a lock is tried whose file is replaced each time
// between the opening and the locking of it.
const lockAttempts = 100

var errReplaced = fmt.Errorf("%w: other processes go on replacing it; try again", base.ErrLocked)

// takeLocked returns the lock with one holder more; nil where Lock promises
// success without one. open opens or makes the file. It needs t.mu held. Errors
// carry no path.
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

// openLockFile opens the file, or makes it, never truncating: an exclusive
// fcntl lock needs a descriptor that may write, a shared one only one that may
// read. It returns nil and no error for a shared lock on a file that is missing
// and cannot be made.
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
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
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

// acquire takes the kernel's locks and sees to it that name still is the file
// that they are on, else the error is errReplaced: RemoveLock may have removed the
// file since it was opened, and a lock on the removed file would keep nobody out.
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

// closeUnlocked gives the locks back and closes the file. Closing alone would not
// do: the locks are the open file's, and a child that some other goroutine is just
// starting has a descriptor of it until it executes its program. A lock that
// outlives Close for so long would refuse whoever opens the directory next.
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

// Close gives the lock back; the last holder's Close releases the locks of every
// family and closes the descriptor.
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

// retryEINTR repeats a call that a signal cut short, as the runtime's own do.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
