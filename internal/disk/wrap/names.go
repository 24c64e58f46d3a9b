package wrap

import (
	"io"
	"io/fs"

	"github.com/sievedb/sievedb/vfs"
)

// names has the operations on names that a wrapper passes to the file system below. It hands each to around, which does
// it by calling do, or not, and returns its error. Those that open a file are left to the wrapper.
type names struct {
	fs     vfs.FS
	around func(op Op, do func() error) error
}

// Abs implements FS. It touches no file, so it is no operation.
func (n *names) Abs(name string) (string, error) { return n.fs.Abs(name) }

// Remove implements FS.
func (n *names) Remove(name string) error {
	return n.around(Op{Kind: OpRemove, Name: name}, func() error { return n.fs.Remove(name) })
}

// Rename implements FS.
func (n *names) Rename(oldname, newname string) error {
	op := Op{Kind: OpRename, Name: oldname, NewName: newname}
	return n.around(op, func() error { return n.fs.Rename(oldname, newname) })
}

// Link implements FS.
func (n *names) Link(oldname, newname string) error {
	op := Op{Kind: OpLink, Name: oldname, NewName: newname}
	return n.around(op, func() error { return n.fs.Link(oldname, newname) })
}

// MkdirAll implements FS.
func (n *names) MkdirAll(dir string) error {
	return n.around(Op{Kind: OpMkdirAll, Name: dir}, func() error { return n.fs.MkdirAll(dir) })
}

// SyncDir implements FS.
func (n *names) SyncDir(dir string) error {
	return n.around(Op{Kind: OpSyncDir, Name: dir}, func() error { return n.fs.SyncDir(dir) })
}

// SyncFile implements vfs.FileSyncer.
func (n *names) SyncFile(name string) error {
	return n.around(Op{Kind: OpSync, Name: name}, func() error { return vfs.SyncFile(n.fs, name) })
}

// List implements FS.
func (n *names) List(dir string) ([]string, error) { return asked(n, OpList, dir, n.fs.List) }

// Stat implements FS.
func (n *names) Stat(name string) (fs.FileInfo, error) { return asked(n, OpStat, name, n.fs.Stat) }

// Lstat implements FS.
func (n *names) Lstat(name string) (fs.FileInfo, error) { return asked(n, OpStat, name, n.fs.Lstat) }

// Lock implements FS.
func (n *names) Lock(name string, shared bool) (io.Closer, error) {
	return asked(n, OpLock, name, func(name string) (io.Closer, error) { return n.fs.Lock(name, shared) })
}

// asked does an operation that has a result.
func asked[T any](n *names, kind OpKind, name string, do func(string) (T, error)) (result T, err error) {
	err = n.around(Op{Kind: kind, Name: name}, func() (err error) {
		result, err = do(name)
		return err
	})
	return result, err
}
