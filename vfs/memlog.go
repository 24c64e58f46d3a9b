package vfs

import (
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// errMemCut is the cause of the error of a Write after Cut.
var errMemCut = errors.Sentinel("the log was cut: it takes no more bytes")

// CreateLog implements LogCreator. The log is reserved in the same steps as by the operating system's file system, but
// the reserved zeros take no memory.
func (m *Mem) CreateLog(name string) (File, error) {
	f, err := m.Create(name)
	if err != nil {
		return nil, err
	}
	return &memLog{memFile: f.(*memFile)}, nil
}

// memLog is the LogFile of a Mem.
type memLog struct {
	*memFile
	cut atomic.Bool
}

var _ LogFile = (*memLog)(nil)

// ReadAt implements File.
func (l *memLog) ReadAt(p []byte, off int64) (int, error) {
	return l.readAt(p, off, (*memNode).written)
}

// Size implements File.
func (l *memLog) Size() (int64, error) {
	if err := l.usable("size", false); err != nil {
		return 0, err
	}
	_, size := l.node.written()
	return size, nil
}

// Write implements File.
func (l *memLog) Write(p []byte) (int, error) { return l.WriteParts(p) }

// WriteParts implements LogFile.
func (l *memLog) WriteParts(parts ...[]byte) (written int, err error) {
	if err := l.usable("write", true); err != nil {
		return 0, err
	}
	if l.cut.Load() {
		return 0, pathError("write", l.name, errMemCut)
	}
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range parts {
		n.data = append(n.data, p...)
		written += len(p)
	}
	n.reserved = base.LogReserve(n.reserved, int64(len(n.data)))
	n.modTime = time.Now()
	return written, nil
}

// Cut implements LogFile.
func (l *memLog) Cut() error {
	if err := l.usable("cut", true); err != nil {
		return err
	}
	l.end()
	return nil
}

func (l *memLog) end() {
	l.cut.Store(true)
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	l.node.reserved = 0
}

// Close implements File.
func (l *memLog) Close() error {
	if l.closed.Swap(true) {
		return pathError("close", l.name, fs.ErrClosed)
	}
	l.end()
	return nil
}
