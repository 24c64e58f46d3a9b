package vfs

import (
	"io"
	"io/fs"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// memNode is a file or directory of a Mem, without its names.
type memNode struct {
	// entries and durable are a directory's current names and those of its last SyncDir;
	// both are nil for a file. Guarded by Mem.mu. durable is never changed, only replaced.
	entries, durable map[string]*memNode

	mu sync.RWMutex // guards the fields below
	// data is a file's bytes. It only grows: bytes below len(data) never change, so that
	// readers and survivors may retain a slice of them.
	data []byte
	// reserved is the length of the file if it is greater than that of data: the rest reads as zeros.
	reserved int64
	// synced and syncedReserved are the length of data, and reserved, at the last Sync.
	synced         int
	syncedReserved int64
	modTime        time.Time
}

func newMemFile() *memNode { return &memNode{modTime: time.Now()} }

func newMemDir() *memNode {
	return &memNode{entries: make(map[string]*memNode), modTime: time.Now()}
}

// isDir needs no lock: a node never changes its kind.
func (n *memNode) isDir() bool { return n.entries != nil }

// survivor returns the node as a power cut leaves it. seen maps nodes to their survivors, because
// a file may have several names. Its caller must hold Mem.mu.
func (n *memNode) survivor(seen map[*memNode]*memNode) *memNode {
	if s := seen[n]; s != nil {
		return s
	}
	if !n.isDir() {
		n.mu.RLock()
		defer n.mu.RUnlock()
		// Limit the capacity too: the original continues writing after synced.
		s := &memNode{
			data: n.data[:n.synced:n.synced], reserved: n.syncedReserved,
			synced: n.synced, syncedReserved: n.syncedReserved, modTime: n.modTime,
		}
		seen[n] = s
		return s
	}
	s := &memNode{entries: make(map[string]*memNode, len(n.durable)), modTime: n.modTime}
	seen[n] = s
	durable := make(map[string]*memNode, len(n.durable))
	for name, child := range n.durable {
		c := child.survivor(seen)
		s.entries[name], durable[name] = c, c
	}
	s.durable = durable
	return s
}

// twin returns a durable copy of the node as it is. seen is as for survivor. The files in seen stay locked until Kill
// is done, so that the copy contains no write that came after one that it lacks. Its caller must hold Mem.mu.
func (n *memNode) twin(seen map[*memNode]*memNode) *memNode {
	if t := seen[n]; t != nil {
		return t
	}
	if !n.isDir() {
		n.mu.RLock()
		t := &memNode{data: n.data[:len(n.data):len(n.data)], reserved: n.reserved, modTime: n.modTime}
		t.syncLocked()
		seen[n] = t
		return t
	}
	t := &memNode{entries: make(map[string]*memNode, len(n.entries)), modTime: n.modTime}
	seen[n] = t
	for name, child := range n.entries {
		t.entries[name] = child.twin(seen)
	}
	t.durable = maps.Clone(t.entries)
	return t
}

// written returns the bytes that were written to the file, which the caller must not change, and their number.
func (n *memNode) written() (data []byte, length int64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.data, int64(len(n.data))
}

// content is written, but length is that of the file, which may be greater: the rest is zeros.
func (n *memNode) content() (data []byte, length int64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.data, n.lengthLocked()
}

func (n *memNode) lengthLocked() int64 { return max(int64(len(n.data)), n.reserved) }

func (n *memNode) syncLocked() { n.synced, n.syncedReserved = len(n.data), n.reserved }

func (n *memNode) info(name string) fs.FileInfo {
	if n.isDir() {
		return memInfo{name: name, mode: fs.ModeDir | dirMode(DefaultFileMode), modTime: n.modTime, node: n}
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return memInfo{name: name, mode: DefaultFileMode, size: n.lengthLocked(), modTime: n.modTime, node: n}
}

// memFile is an open file of a Mem.
type memFile struct {
	name    string
	node    *memNode
	reading bool // from Open
	closed  atomic.Bool
}

func (f *memFile) usable(op string, writing bool) error {
	switch {
	case writing && f.reading:
		return pathError(op, f.name, errReadingOnly)
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	return f.readAt(p, off, (*memNode).content)
}

// readAt is ReadAt of what the function shows of the file.
func (f *memFile) readAt(p []byte, off int64, show func(*memNode) (data []byte, length int64)) (int, error) {
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, errNegative)
	}
	if len(p) == 0 {
		return 0, nil
	}
	data, length := show(f.node)
	if off >= length {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), length-off))
	clear(p[copy(p[:n], data[min(off, int64(len(data))):]):n])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = append(n.data, p...)
	n.modTime = time.Now()
	return len(p), nil
}

func (f *memFile) Sync() error {
	if err := f.usable("sync", true); err != nil {
		return err
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.syncLocked()
	return nil
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.usable("size", false); err != nil {
		return 0, err
	}
	_, size := f.node.content()
	return size, nil
}

// memInfo implements fs.FileInfo.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
	node    *memNode
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
