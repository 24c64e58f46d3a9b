package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/vfs"
)

// bytewise is the name of the comparer that the tool has.
const bytewise = "leveldb.BytewiseComparator"

// files is the file system of what reads files without opening the database: as with Options.ReadOnly, they may be
// links.
var files = vfs.NewOSForReading(vfs.DefaultFileMode)

// knownComparers are custom comparers that are read in the order of bytes without --comparer, with what they are.
var knownComparers = map[string]string{
	"idb_cmp1": "Chromium's order for IndexedDB",
}

// customComparer returns the name of the database's comparer if it is not the bytewise one.
func customComparer(dir string) string {
	s, _ := dump.ReadState(files, dir) // the name is known before a missing table is
	name := base.PlainComparerName(s.Comparer)
	if name == bytewise {
		return ""
	}
	return name
}

// openCustom opens a database of a custom comparer for reading: its entries, in the order of their
// bytes. It returns failed, the error of opening it directly, if the comparer is not the reason.
//
// An index is of no use without the order that it was made in. So all entries are copied to a
// temporary database, which is removed at the end.
func (a *app) openCustom(dir string, o *db.Options, failed error) (*db.DB, func() error, error) {
	name := customComparer(dir)
	if name == "" {
		return nil, nil, failed
	}
	switch {
	case o.ReadOnly && !a.copies:
		return nil, nil, readableOnly(dir, name)
	case !o.ReadOnly:
		return nil, nil, fmt.Errorf("sievedb: %s has the custom comparer %q, which this tool does not have; it can only be read", dir, name)
	}
	if err := a.byBytes(dir, name); err != nil {
		return nil, nil, err
	}
	temp, err := os.MkdirTemp("", "sievedb-copy-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(temp) }
	store, err := a.copyByBytes(dir, temp)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return store, remove, nil
}

// byBytes says that keys are shown in another order than that of the comparer. It refuses a comparer that is
// not known, without --comparer.
func (a *app) byBytes(dir, name string) error {
	known := knownComparers[name]
	switch {
	case known == "" && a.flags.comparer != "bytes":
		return fmt.Errorf("sievedb: %s has the custom comparer %q, which this tool does not have; "+
			"--comparer bytes reads it in the order of the keys' bytes", dir, name)
	case known != "":
		name += ", " + known
	}
	a.notice("the database has a custom comparer (%s); its keys are shown in the order of their bytes, from a temporary copy", name)
	return nil
}

// readableOnly is the error of verbs that need the comparer.
func readableOnly(dir, name string) error {
	return fmt.Errorf("sievedb: %s has the custom comparer %q, which this tool does not have; "+
		"get, has, scan, count, export, diff, properties and dump can read it", dir, name)
}

// copyByBytes copies the newest versions of all keys to a database in temp.
func (a *app) copyByBytes(dir, temp string) (*db.DB, error) {
	all, err := newVersions(filepath.Join(temp, "versions"))
	if err != nil {
		return nil, err
	}
	defer all.close()
	p := a.progress("copying", "entry")
	state, err := a.history(dir, func(key []byte, v version) error {
		p.add(1, uint64(len(key)+len(v.value)))
		return all.offer(key, v)
	})
	p.close()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(temp, "copy")
	store, err := db.Open(path, nil)
	if err != nil {
		return nil, err
	}
	err = a.loadVersions(store, all)
	if cerr := store.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	o := &db.Options{ReadOnly: true}
	o.Expiry.Prefixes = state.Recorded.Prefixes // the copy has the envelopes as well
	if err := a.addExpiry(o); err != nil {
		return nil, err
	}
	return db.Open(path, o)
}

func (a *app) loadVersions(store *db.DB, all *versions) error {
	l, err := store.NewLoader()
	if err != nil {
		return err
	}
	err = a.each(all.store, &db.IterOptions{}, false, func(key, value []byte) (bool, error) {
		v := decodeVersion(value)
		if v.deleted {
			return true, nil
		}
		return true, l.Put(key, v.value)
	})
	if err == nil {
		err = l.Commit()
	}
	_ = l.Close() // it gives up what is not committed
	return err
}

// version is one version of a key.
type version struct {
	seq     uint64
	deleted bool
	value   []byte
}

// history calls fn with each version of each key in the files of a database that no process writes.
func (a *app) history(dir string, fn func(key []byte, v version) error) (dump.State, error) {
	unlock, err := lockShared(dir)
	if err != nil {
		return dump.State{}, err
	}
	defer unlock()
	n := 0
	s, err := dump.History(files, dir, func(ikey, value []byte) error {
		if n++; n%1024 == 0 && a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		trailer := binary.LittleEndian.Uint64(ikey[len(ikey)-8:])
		return fn(ikey[:len(ikey)-8], version{seq: trailer >> 8, deleted: trailer&0xff == 0, value: value})
	})
	return s, explainMissing(dir, err)
}

// lockShared keeps writers out of a database. It makes no LOCK in a directory without one.
func lockShared(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, "LOCK")
	if _, err := os.Stat(path); err != nil {
		return func() {}, nil
	}
	lock, err := files.Lock(path, true)
	if errors.Is(err, db.ErrLocked) { // the usual advice, to use a verb that only reads, does not help
		return nil, fmt.Errorf("sievedb: %s is open in another process; end it, or copy the directory and read the copy", dir)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// versions keeps the newest version of each key that it was offered, on disk.
type versions struct{ store *db.DB }

func newVersions(dir string) (*versions, error) {
	store, err := db.Open(dir, nil)
	return &versions{store}, err
}

func (v *versions) close() { _ = v.store.Close() }

// offer keeps the version if it is the newest of its key so far.
func (v *versions) offer(key []byte, new version) error {
	old, err := v.store.Get(key)
	if err == nil && decodeVersion(old).seq > new.seq {
		return nil
	}
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	kind := byte(1)
	if new.deleted {
		kind = 0
	}
	b := append(binary.LittleEndian.AppendUint64(nil, new.seq), kind)
	return v.store.Put(key, append(b, new.value...), db.Buffered)
}

// get returns the version of a key; ok is false if there is none.
func (v *versions) get(key []byte) (found version, ok bool, err error) {
	b, err := v.store.Get(key)
	if errors.Is(err, db.ErrNotFound) {
		return version{}, false, nil
	}
	if err != nil {
		return version{}, false, err
	}
	return decodeVersion(b), true, nil
}

// decodeVersion is the inverse of what offer writes.
func decodeVersion(b []byte) version {
	return version{seq: binary.LittleEndian.Uint64(b), deleted: b[8] == 0, value: b[9:]}
}
