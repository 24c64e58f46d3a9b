package machine

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Frozen calls f with a read-only database that has the state at one moment, and with the index and term of the last
// entry in it. Entries are applied meanwhile. ctx of f also ends when the machine is closed, which waits for f.
func (m *Machine) Frozen(ctx context.Context, f func(ctx context.Context, d *db.DB, index, term uint64) error) (err error) {
	st, err := m.use()
	if err != nil {
		return err
	}
	defer st.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	// What is made next to the frozen database is in a directory that Open removes after a crash.
	dir := m.path(m.newName(sendPrefix))
	if err := vfs.MkdirAllSynced(m.fs, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.RemoveAll(m.fs, dir)) }()
	// Tables that are flushed are shared with the next backup; those that would be made of the log are not.
	frozen := filepath.Join(dir, "state")
	if _, err := st.db.Checkpoint(ctx, frozen, &db.CheckpointOptions{Flush: true}); err != nil {
		return m.failIfDamaged(err)
	}
	d, err := db.Open(frozen, &db.Options{FS: m.fs, ReadOnly: true, Cache: db.CacheOptions{Size: -1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	at, err := readPosition(d)
	if err != nil {
		return err
	}
	return f(ctx, d, at.index, at.term)
}
