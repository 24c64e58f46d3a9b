package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/db"
)

// logs is the log store of the node. It is replaced when it has failed.
type logs struct {
	mu    sync.Mutex
	store *logstore.Store // nil while it is closed
	why   error           // why it is closed
}

func logDir(dir string) string { return filepath.Join(dir, "log") }

// open opens the log store. If node.json says that the directory has the log of an earlier incarnation, it
// is moved aside first.
func (l *logs) open(n *Node) error {
	if err := n.replaceOldLog(); err != nil {
		return err
	}
	store, err := n.openLogStore()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.why = store, err
	return err
}

// openLogStore opens the log store, and creates it only if this incarnation never had one. Otherwise the node has lost
// its votes and entries, and could elect a leader that does not have what it has acknowledged.
func (n *Node) openLogStore() (*logstore.Store, error) {
	had := n.identity.Load().Log
	dir := logDir(n.o.Dir)
	store, err := logstore.Open(dir, logstore.Options{
		FS: n.o.FS, Logger: n.o.Logger,
		DB:     func(o *db.Options) { o.Resources, o.ErrorIfMissing = n.shared, had },
		Failed: func(error) { n.wake() },
	})
	switch {
	case had && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the log of this node, %s, is lost; without other nodes that have its data, move what is "+
			"left away and restore a backup, or use sieved recover: %w", dir, errors.Join(db.ErrCorruption, err))
	case err == nil && !had:
		err = n.changeIdentity(func(id *identity) { id.Log = true })
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, err
}

// replaceOldLog moves the directory of the log aside if it belongs to an earlier incarnation.
func (n *Node) replaceOldLog() error {
	if !n.identity.Load().OldLog {
		return nil
	}
	if err := n.moveAside(logDir(n.o.Dir)); err != nil {
		return err
	}
	return n.changeIdentity(func(id *identity) { id.OldLog, id.Log = false, false })
}

// moveAside renames a directory to one with the suffix .damaged, which it replaces. It may be missing.
func (n *Node) moveAside(dir string) error {
	if !n.exists(dir) {
		return nil
	}
	aside := dir + ".damaged"
	if err := files.RemoveAll(n.o.FS, aside); err != nil {
		return err
	}
	if err := n.o.FS.Rename(dir, aside); err != nil {
		return err
	}
	return n.o.FS.SyncDir(filepath.Dir(dir))
}

func (n *Node) exists(name string) bool {
	_, err := n.o.FS.Lstat(name)
	return err == nil
}

// close closes the store and notes why.
func (l *logs) close(why error) error {
	l.mu.Lock()
	store := l.store
	l.store, l.why = nil, why
	l.mu.Unlock()
	if store == nil {
		return nil
	}
	return store.Close()
}

// err returns why the store does not work, or nil.
func (l *logs) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return l.why
	}
	return l.store.Err()
}

func (l *logs) group(group kv.GroupID) (*logstore.Group, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return nil, fmt.Errorf("the log store is closed: %w", l.why)
	}
	return l.store.Group(group), nil
}

// get returns the store, nil while it is closed.
func (l *logs) get() *logstore.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// database returns the store's database, nil while it is closed.
func (l *logs) database() *db.DB {
	if store := l.get(); store != nil {
		return store.DB()
	}
	return nil
}

// clear deletes the entries of a group. Its votes remain.
func (l *logs) clear(group kv.GroupID) error {
	g, err := l.group(group)
	if err != nil {
		return err
	}
	return clearLog(g)
}

func clearLog(g *logstore.Group) error {
	first, err1 := g.FirstIndex()
	last, err2 := g.LastIndex()
	if err := errors.Join(err1, err2); err != nil || last == 0 {
		return err
	}
	return g.DeleteRange(first, last)
}
