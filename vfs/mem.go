package vfs

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Mem is an in-memory file system. It keeps track of the files and directories that a power cut
// would leave; Crash returns those, and Kill returns what the end of the process would leave.
// Relative names start at its root. It has no symbolic links and no permissions.
//
// Lock order: Mem.mu before memNode.mu.
type Mem struct {
	// mu guards the directory maps of every node of the tree, and locks.
	mu   sync.RWMutex
	root *memNode
	// locks says who holds each file's lock: -1 for an exclusive holder, otherwise the number of shared holders.
	locks map[*memNode]int
}

// NewMem returns an empty file system.
func NewMem() *Mem { return newMem(newMemDir()) }

func newMem(root *memNode) *Mem { return &Mem{root: root, locks: make(map[*memNode]int)} }

// Crash returns the file system that a power cut at this moment would leave in the worst case:
// each directory has the entries of its last SyncDir, and each file the bytes of its last Sync.
// A log of CreateLog is as long as at its last Sync, too: the zeros that were reserved then follow
// its bytes, even if a Cut has removed them since. The result has no locks. The receiver and its
// open files are unaffected. The two share the bytes without copying them.
func (m *Mem) Crash() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return newMem(m.root.survivor(make(map[*memNode]*memNode)))
}

// Kill returns the file system that the death of the process at this moment would leave: all names and bytes, and the
// zeros that are reserved behind the bytes of logs, all of them durable then. It is one moment for all files, even if
// they are being written concurrently. The result has no locks. The receiver is unaffected.
func (m *Mem) Kill() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	seen := make(map[*memNode]*memNode)
	defer func() {
		for n := range seen {
			if !n.isDir() {
				n.mu.RUnlock()
			}
		}
	}()
	return newMem(m.root.twin(seen))
}

// splitPath returns the elements of a name from the root.
func splitPath(name string) []string {
	clean := path.Clean("/" + filepath.ToSlash(name))
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

// lookupLocked returns the node of a name. Its caller must hold m.mu.
func (m *Mem) lookupLocked(elems []string) (*memNode, error) {
	n := m.root
	for _, e := range elems {
		if !n.isDir() {
			return nil, errNotDir
		}
		next := n.entries[e]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parentLocked returns the directory that contains a name, and the name's last element. Its caller must hold m.mu.
func (m *Mem) parentLocked(name string) (dir *memNode, base string, err error) {
	elems := splitPath(name)
	if len(elems) == 0 {
		return nil, "", errIsDir
	}
	dir, err = m.lookupLocked(elems[:len(elems)-1])
	if err == nil && !dir.isDir() {
		err = errNotDir
	}
	return dir, elems[len(elems)-1], err
}

// fileLocked returns the node of a plain file. Its caller must hold m.mu.
func (m *Mem) fileLocked(name string) (file *memNode, err error) {
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	file = dir.entries[base]
	switch {
	case file == nil:
		err = fs.ErrNotExist
	case file.isDir():
		err = errIsDir
	}
	return file, err
}

// Abs implements FS. A Mem has no working directory.
func (m *Mem) Abs(name string) (string, error) { return name, nil }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.createLocked(name)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return &memFile{name: name, node: n}, nil
}

func (m *Mem) createLocked(name string) (*memNode, error) {
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	switch old := dir.entries[base]; {
	case old == nil:
	case old.isDir():
		return nil, errIsDir
	default:
		return nil, fs.ErrExist
	}
	n := newMemFile()
	dir.entries[base] = n
	return n, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.fileLocked(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{name: name, node: n, reading: true}, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case n.isDir() && len(n.entries) > 0:
		return pathError("remove", name, errNotEmpty)
	}
	delete(dir.entries, base)
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(oldname, newname); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (m *Mem) renameLocked(oldname, newname string) error {
	oldDir, oldBase, err := m.parentLocked(oldname)
	if err != nil {
		return err
	}
	newDir, newBase, err := m.parentLocked(newname)
	if err != nil {
		return err
	}
	n, target := oldDir.entries[oldBase], newDir.entries[newBase]
	switch {
	case n == nil:
		return fs.ErrNotExist
	case n.isDir() && target != nil:
		return fs.ErrExist
	case n.isDir() && newDir.isWithin(n):
		return fs.ErrInvalid
	case target != nil && target.isDir():
		return errIsDir
	}
	if target == n {
		return nil // as rename(2): both names of one file remain
	}
	delete(oldDir.entries, oldBase)
	newDir.entries[newBase] = n
	return nil
}

// isWithin reports whether n is dir or below it.
func (n *memNode) isWithin(dir *memNode) bool {
	if n == dir {
		return true
	}
	for _, e := range dir.entries {
		if e.isDir() && n.isWithin(e) {
			return true
		}
	}
	return false
}

// Link implements FS.
func (m *Mem) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.linkLocked(oldname, newname); err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (m *Mem) linkLocked(oldname, newname string) error {
	n, err := m.fileLocked(oldname)
	if err != nil {
		return err
	}
	dir, base, err := m.parentLocked(newname)
	if err != nil {
		return err
	}
	if dir.entries[base] != nil {
		return fs.ErrExist
	}
	dir.entries[base] = n
	return nil
}

// dirLocked returns the directory of that name. Its caller must hold m.mu.
func (m *Mem) dirLocked(name string) (*memNode, error) {
	n, err := m.lookupLocked(splitPath(name))
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	return n, err
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.dirLocked(dir)
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookupLocked(splitPath(name))
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(filepath.Base(name)), nil
}

// Lstat implements FS.
func (m *Mem) Lstat(name string) (fs.FileInfo, error) { return m.Stat(name) }

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, e := range splitPath(dir) {
		next := n.entries[e]
		if next == nil {
			next = newMemDir()
			n.entries[e] = next
		}
		if !next.isDir() {
			return pathError("mkdir", dir, errNotDir)
		}
		n = next
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.dirLocked(dir)
	if err != nil {
		return pathError("sync directory", dir, err)
	}
	n.durable = maps.Clone(n.entries)
	return nil
}
