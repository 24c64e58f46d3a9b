package machine

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// restoredName is the name of a state that was restored from a backup.
const restoredName = statePrefix + "000001"

// RestoreDir returns where, in the directory of a new replica, the database of its state is restored, for Adopt.
func RestoreDir(dir string) string { return filepath.Join(dir, restoredName) }

// Adopt makes the database in RestoreDir(dir) the state of the replica in dir, which has none yet.
func Adopt(fsys vfs.FS, dir string) error {
	p, err := readPointer(fsys, dir)
	if err == nil && p.name != "" {
		err = fmt.Errorf("%s has a state already", dir)
	}
	if err == nil {
		_, err = writePointer(fsys, dir, pointer{name: restoredName})
	}
	return err
}

// Rebase makes the state the beginning of a new history: it ends with the entry of an index and a term, after which the
// group has the servers of c. Data and clock remain. meta are values that the group itself stores, by name. raft must
// not run, and the log must not have entries that contradict. The change is durable.
func (m *Machine) Rebase(index, term uint64, c raft.Configuration, meta map[string][]byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.Err(); err != nil {
		return err
	}
	old := *m.present.at.Load()
	to := position{index: index, term: term, clock: old.clock, configIndex: index, configuration: c.Clone()}
	old.configIndex = math.MaxUint64 // the configuration is another one, even if its index is the same
	m.batch.Reset()
	to.put(&m.batch, &old)
	for name, value := range meta {
		m.batch.Put(layout.Meta(name), value)
	}
	if err := m.present.db.Apply(&m.batch, db.Sync); err != nil {
		return m.fail(fmt.Errorf("begin a new history: %w", err))
	}
	m.present.at.Store(&to)
	m.waiters.restart(index)
	return nil
}
