package vfs

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/internal/base"
)

// exclusiveHolder is the value of Mem.locks for a file locked exclusively.
const exclusiveHolder = -1

// Lock implements FS. The lock belongs to the file, whatever its name, and to this Mem: a Mem
// returned by Crash has no locks.
func (m *Mem) Lock(name string, shared bool) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.fileLocked(name)
	if errors.Is(err, fs.ErrNotExist) {
		n, err = m.createLocked(name)
	}
	if err == nil {
		err = m.acquireLocked(n, shared)
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	return &memLock{mem: m, node: n, name: name}, nil
}

func (m *Mem) acquireLocked(n *memNode, shared bool) error {
	holders := m.locks[n]
	switch {
	case holders == 0 && !shared:
		m.locks[n] = exclusiveHolder
	case holders >= 0 && shared:
		m.locks[n] = holders + 1
	default:
		return fmt.Errorf("%w: this process has it open already; close it there first", base.ErrLocked)
	}
	return nil
}

// memLock is one holder's share of a lock.
type memLock struct {
	mem  *Mem
	node *memNode // nil once closed; guarded by mem.mu
	name string
}

func (l *memLock) Close() error {
	l.mem.mu.Lock()
	defer l.mem.mu.Unlock()
	if l.node == nil {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	if l.mem.locks[l.node] > 1 {
		l.mem.locks[l.node]--
	} else {
		delete(l.mem.locks, l.node)
	}
	l.node = nil
	return nil
}
