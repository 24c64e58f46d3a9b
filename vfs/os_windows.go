package vfs

import (
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// openFile opens or creates a file as package os does, but with FILE_SHARE_DELETE: the file, and other hard links to
// it, can be renamed, replaced and removed while it is open, as on other systems. A backup removes its links to tables
// that the database has open, and Open replaces CURRENT while a follower reads it. A symbolic link is opened itself.
func openFile(name string, flags int, _ fs.FileMode) (*os.File, error) {
	name16, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	access := uint32(syscall.GENERIC_READ)
	if flags&(os.O_RDWR|os.O_WRONLY) != 0 {
		access |= syscall.GENERIC_WRITE
	}
	disposition := uint32(syscall.OPEN_EXISTING)
	switch {
	case flags&os.O_EXCL != 0:
		disposition = syscall.CREATE_NEW
	case flags&os.O_CREATE != 0:
		disposition = syscall.OPEN_ALWAYS
	}
	const share = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	h, err := syscall.CreateFile(name16, access, share, nil, disposition,
		syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return os.NewFile(uintptr(h), name), nil
}

// openNoFollow opens name unless it is a symbolic link.
func openNoFollow(name string, flags int, mode fs.FileMode) (*os.File, error) {
	info, err := os.Lstat(name)
	if err == nil {
		if err := notPlain(info.Mode()); err != nil {
			return nil, pathError("open", name, err)
		}
	}
	return openFile(name, flags, mode)
}

// fileSize asks the handle itself: the Stat of package os passes the handle of a closed file on, which may be another
// file's by then.
func fileSize(f *os.File) (size int64, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, pathError("size", f.Name(), err)
	}
	closed := c.Control(func(h uintptr) {
		var info syscall.ByHandleFileInformation
		err = syscall.GetFileInformationByHandle(syscall.Handle(h), &info)
		size = int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow)
	})
	if closed != nil {
		err = fs.ErrClosed
	}
	if err != nil {
		return 0, pathError("size", f.Name(), err)
	}
	return size, nil
}

func openDir(name string) (*os.File, error) { return os.Open(name) }

// syncDir only checks that dir exists: Windows has no fsync for directories, and NTFS journals names itself.
func syncDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = pathError("sync", dir, errNotDir)
	}
	return err
}

// MaxDescriptors returns how many files the process may have open: math.MaxInt32, because Windows has no limit that a
// program could query.
func MaxDescriptors() int { return math.MaxInt32 }

// What renamePosix needs of Windows' API, by the names winnt.h and winbase.h give it: DELETE, FileRenameInfoEx,
// FILE_RENAME_REPLACE_IF_EXISTS, FILE_RENAME_POSIX_SEMANTICS. golang.org/x/sys/windows has them, and imports package
// net, which is a third of a small program.
const (
	accessDelete          = 0x00010000
	fileRenameInfoEx      = 22
	renameReplaceIfExists = 1
	renamePosixSemantics  = 2
)

var setFileInformation = syscall.NewLazyDLL("kernel32.dll").NewProc("SetFileInformationByHandle")

// renameInfo is FILE_RENAME_INFO with the flags of FileRenameInfoEx, without the name that follows it.
type renameInfo struct {
	flags  uint32
	root   syscall.Handle
	length uint32 // of the name, in bytes
	name   [1]uint16
}

// How long a rename waits for a file to be closed: 1 ms, 2 ms and so on to longestWait, half a second in total.
const longestWait = 256 * time.Millisecond

var sleep = time.Sleep // tests replace it

// rename renames as POSIX does: it also replaces a file that is open with FILE_SHARE_DELETE, which MoveFileEx refuses.
// FAT, network drives and the first releases of Windows 10 do not support that, and a program such as a virus scanner
// may have the file open without FILE_SHARE_DELETE. Then rename uses MoveFileEx and waits a little for the others to
// close the file: a follower has CURRENT open for as long as it takes to read it. To move the open file out of the way
// first would work at once, but a crash in between would leave a database without CURRENT.
func rename(oldname, newname string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		if err := renamePosix(oldname, newname); err == nil {
			return nil
		}
		err := os.Rename(oldname, newname)
		if err == nil || wait > longestWait || !inUse(err, newname) {
			return err
		}
		sleep(wait)
	}
}

// inUse reports whether a rename to name may have failed with err because one of the files is open.
func inUse(err error, name string) bool {
	if errors.Is(err, errorSharingViolation) {
		return true
	}
	info, lerr := os.Lstat(name)
	return errors.Is(err, syscall.ERROR_ACCESS_DENIED) && lerr == nil && info.Mode().IsRegular()
}

func renamePosix(oldname, newname string) error {
	from, err := syscall.UTF16PtrFromString(oldname)
	if err != nil {
		return err
	}
	target, err := fullPath(newname)
	if err != nil {
		return err
	}
	const share = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	h, err := syscall.CreateFile(from, accessDelete|syscall.SYNCHRONIZE, share, nil, syscall.OPEN_EXISTING,
		syscall.FILE_FLAG_OPEN_REPARSE_POINT|syscall.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return err
	}
	const head = unsafe.Offsetof(renameInfo{}.name)
	buf := make([]uint64, (head+uintptr(2*len(target))+7)/8+1) // aligned, and not smaller than the struct
	info := (*renameInfo)(unsafe.Pointer(&buf[0]))
	info.flags = renameReplaceIfExists | renamePosixSemantics
	info.length = uint32(2 * (len(target) - 1)) // without the zero at its end
	copy(unsafe.Slice(&info.name[0], len(target)), target)
	done, _, callErr := setFileInformation.Call(uintptr(h), fileRenameInfoEx, uintptr(unsafe.Pointer(info)), head+uintptr(2*len(target)))
	if done == 0 {
		err = callErr
	}
	return errors.Join(err, syscall.CloseHandle(h))
}

// fullPath returns the absolute path with a zero at its end.
func fullPath(name string) ([]uint16, error) {
	abs, err := syscall.FullPath(name)
	if err != nil {
		return nil, err
	}
	return syscall.UTF16FromString(abs)
}
