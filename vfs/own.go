package vfs

import (
	"fmt"
	"io/fs"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// ErrNotOwn is matched by the errors of CheckOwn, OwnDir and MkdirOwn for a file or a directory that another user owns
// or can write.
var ErrNotOwn = errors.Sentinel("another user can change it")

// DirMaker is implemented by a file system that can make a directory exclusively. OS implements it.
type DirMaker interface {
	// Mkdir makes a directory, whose parent must exist. It fails with fs.ErrExist if the name exists, even as a link.
	Mkdir(dir string) error
}

// Shared bits of a mode: who other than the owner may write.
const (
	groupWrites  fs.FileMode = 0o020
	othersWrite  fs.FileMode = 0o002
	anyoneWrites             = groupWrites | othersWrite
)

// CheckOwn returns an error that matches ErrNotOwn if info describes a file or a directory that does not belong to the
// effective user of the process, or that other users may write. What this user has made before passes. It is for what
// is found under a predictable name where this user would have made it: in a directory such as /tmp, another user may
// have prepared it. name is the path for the error.
//
// A group may write if its number is that of the owner: many Linux distributions give each user such a group, which has
// no other members, and a umask of 002. On Windows, and for file systems without owners such as Mem, everything passes.
func CheckOwn(name string, info fs.FileInfo) error { return checkOwn(name, info, 0) }

// checkOwn is CheckOwn, but those who have a bit of allowed may write.
func checkOwn(name string, info fs.FileInfo, allowed fs.FileMode) error {
	owner, group, known := ownerOf(info)
	if !known {
		return nil
	}
	mode := info.Mode().Perm()
	writable := mode & anyoneWrites &^ allowed
	if owner == group {
		writable &^= groupWrites
	}
	var why string
	switch user := effectiveUser(); {
	case owner != user:
		why = fmt.Sprintf("user %d owns it, and this process runs as user %d", owner, user)
	case writable&othersWrite != 0:
		why = fmt.Sprintf("its mode is %#o, all users can write", uint32(mode))
	case writable != 0:
		why = fmt.Sprintf("its mode is %#o, group %d can write", uint32(mode), group)
	default:
		return nil
	}
	return pathError("use", name, errors.Wrap(ErrNotOwn, why))
}

// OwnDir reports whether dir exists, as PlainDir does. It returns an error that matches ErrNotOwn if another user could
// change the files in it, as CheckOwn says. On the file system of NewOS, those may write whom its mode for new files
// lets write.
//
// A directory that passes cannot be exchanged by another user unless that user owns its parent, or may write in the
// parent and the parent has no sticky bit.
func OwnDir(fsys FS, dir string) (there bool, err error) {
	there, err = PlainDir(fsys, dir)
	if !there || err != nil {
		return there, err
	}
	info, err := fsys.Lstat(dir)
	if err != nil {
		return true, err
	}
	return true, checkOwn(dir, info, allowedWriters(fsys))
}

// allowedWriters returns the bits of those who may write in the directories that fsys makes.
func allowedWriters(fsys FS) fs.FileMode {
	if o, ok := fsys.(interface{ newDirMode() fs.FileMode }); ok {
		return o.newDirMode() & anyoneWrites
	}
	return 0
}

// MkdirOwn makes dir, whose parent should exist, or accepts a directory that passes OwnDir. One that this call makes
// is not checked: on some network drives, and on those of other systems, everything belongs to one user. Without a
// DirMaker a directory that was made at the same moment is checked too.
func MkdirOwn(fsys FS, dir string) error {
	m, ok := fsys.(DirMaker)
	if !ok {
		if err := fsys.MkdirAll(dir); err != nil {
			return err
		}
		_, err := OwnDir(fsys, dir)
		return err
	}
	err := m.Mkdir(dir)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := OwnDir(fsys, dir)
	if err == nil && !there {
		err = pathError("mkdir", dir, fs.ErrNotExist) // it was removed meanwhile
	}
	return err
}
