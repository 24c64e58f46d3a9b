package leveldb

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Snapshot is the database as it was at one moment. It is safe for concurrent use. It should be
// released; Close of the DB does not wait for that.
type Snapshot struct {
	d  *DB
	s  *db.Snapshot
	id uint64

	mu       sync.RWMutex // guards released
	released bool
}

func (d *DB) newSnapshot() *Snapshot {
	s := &Snapshot{d: d, s: d.store.NewSnapshot(), id: d.snapshots.Add(1)}
	d.aliveSnaps.Add(1)
	runtime.SetFinalizer(s, (*Snapshot).Release)
	return s
}

// String returns a text with the number of the snapshot.
func (snap *Snapshot) String() string { return fmt.Sprintf("leveldb.Snapshot{%d}", snap.id) }

// usable returns why the snapshot cannot be read. Its caller must hold snap.mu.
func (snap *Snapshot) usableLocked() error {
	if snap.released {
		return ErrSnapshotReleased
	}
	return snap.d.ok()
}

// Get returns the value of key, which belongs to the caller, or ErrNotFound.
func (snap *Snapshot) Get(key []byte, ro *opt.ReadOptions) (value []byte, err error) {
	snap.mu.RLock()
	defer snap.mu.RUnlock()
	if err := snap.usableLocked(); err != nil {
		return nil, err
	}
	return get(snap.s, key, ro)
}

// Has reports whether key has a value.
func (snap *Snapshot) Has(key []byte, ro *opt.ReadOptions) (ret bool, err error) {
	snap.mu.RLock()
	defer snap.mu.RUnlock()
	if err := snap.usableLocked(); err != nil {
		return false, err
	}
	ret, err = snap.s.Has(key)
	return ret, convert(err)
}

// NewIterator returns an iterator over the keys in slice; nil means all. It can be used after the
// release of the snapshot, and must be released itself.
func (snap *Snapshot) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	snap.mu.RLock()
	defer snap.mu.RUnlock()
	if err := snap.usableLocked(); err != nil {
		return iterator.NewEmptyIterator(err)
	}
	return snap.d.newIterator(snap.s, slice, ro)
}

// Release ends the snapshot. It may be called more than once.
func (snap *Snapshot) Release() {
	snap.mu.Lock()
	defer snap.mu.Unlock()
	if snap.released {
		return
	}
	runtime.SetFinalizer(snap, nil)
	snap.released = true
	_ = snap.s.Close() // it only says that the store is closed
	snap.d.aliveSnaps.Add(-1)
}
