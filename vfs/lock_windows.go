package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/internal/base"
)

// Windows error codes that package syscall does not name.
const (
	errorWriteProtect     = syscall.Errno(19)
	errorSharingViolation = syscall.Errno(32)
)

// lockFile opens the file with a share mode that acts as the lock: none, so that no other handle can be opened, or
// reading, so that only readers can. goleveldb does the same, and LevelDB opens LOCK for writing, which both modes
// refuse. Share modes also apply to handles of this process, so lockFile needs no table of locks.
func lockFile(name string, shared bool, _ fs.FileMode) (io.Closer, error) {
	var h syscall.Handle
	var err error
	if shared {
		h, err = openLock(name, syscall.GENERIC_READ, syscall.FILE_SHARE_READ, syscall.OPEN_EXISTING)
		if errors.Is(err, os.ErrNotExist) {
			h, err = openLock(name, syscall.GENERIC_READ, syscall.FILE_SHARE_READ, syscall.OPEN_ALWAYS)
			if errors.Is(err, os.ErrPermission) || err == errorWriteProtect {
				return noLock{}, nil // as Lock documents for an unwritable directory
			}
		}
	} else {
		h, err = openLock(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, syscall.OPEN_ALWAYS)
	}
	if err == errorSharingViolation {
		err = fmt.Errorf("%w: this process or another has it open; close it there first", base.ErrLocked)
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	return os.NewFile(uintptr(h), name), nil
}

// openLock opens or creates the file without truncating it. It opens a link itself, without
// following it, and then refuses it.
func openLock(name string, access, share, disposition uint32) (syscall.Handle, error) {
	name16, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return syscall.InvalidHandle, err
	}
	h, err := syscall.CreateFile(name16, access, share, nil, disposition,
		syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return syscall.InvalidHandle, err
	}
	var info syscall.ByHandleFileInformation
	err = syscall.GetFileInformationByHandle(h, &info)
	if err == nil && info.FileAttributes&syscall.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		err = ErrSymlink
	}
	if err != nil {
		return syscall.InvalidHandle, errors.Join(err, syscall.CloseHandle(h))
	}
	return h, nil
}

type noLock struct{}

func (noLock) Close() error { return nil }
