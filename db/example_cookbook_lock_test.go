package db_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// locks are held until their lease ends. Options.Expiry.Namespaces has "locks", and not "fences".
type locks struct {
	store          *db.DB
	leases, fences *db.Namespace
}

// lease is the right to a lock. Fence is greater in each lease of a lock than in all before it.
type lease struct {
	Name  string
	Fence uint64
}

var errLost = errors.New("the lease has ended")

func openLocks(store *db.DB) (l locks, err error) {
	l.store = store
	if l.leases, err = store.Namespace("locks"); err != nil {
		return l, err
	}
	l.fences, err = store.Namespace("fences")
	return l, err
}

// acquire returns false if another one has the lock.
func (l locks) acquire(name string, ttl time.Duration) (got lease, ok bool, err error) {
	key := []byte(name)
	err = l.store.Update(func(t *db.Transaction) error {
		held, err := l.leases.In(t).Has(key)
		if ok = err == nil && !held; !ok {
			return err
		}
		last, err := l.fences.In(t).Get(key)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
		got = lease{Name: name, Fence: 1}
		if err == nil {
			got.Fence = binary.BigEndian.Uint64(last) + 1
		}
		if err := l.fences.In(t).Put(key, got.value()); err != nil {
			return err
		}
		return l.leases.In(t).PutTTL(key, got.value(), ttl)
	})
	return got, ok && err == nil, err
}

func (held lease) value() []byte { return binary.BigEndian.AppendUint64(nil, held.Fence) }

// renew and release return false if the lease has ended.
func (l locks) renew(held lease, ttl time.Duration) (ok bool, err error) {
	return l.store.CompareAndSwapTTL(l.leases.Key([]byte(held.Name)), held.value(), held.value(), ttl, nil)
}

func (l locks) release(held lease) (ok bool, err error) {
	return l.store.CompareAndSwap(l.leases.Key([]byte(held.Name)), held.value(), nil, nil)
}

// update is Update for the holder of a lock: nothing is written if the lease has ended at the commit.
func (l locks) update(held lease, fn func(t *db.Transaction) error) error {
	return l.store.Update(func(t *db.Transaction) error {
		value, err := l.leases.In(t).Get([]byte(held.Name))
		if errors.Is(err, db.ErrNotFound) || err == nil && string(value) != string(held.value()) {
			return errLost
		}
		if err != nil {
			return err
		}
		return fn(t)
	})
}

func Example_cookbookLock() {
	var passed atomic.Int64 // the example moves the clock itself
	clock := func() time.Time { return time.Date(2030, 1, 1, 12, 0, int(passed.Load()), 0, time.UTC) }
	expiry := db.ExpiryOptions{Namespaces: []string{"locks"}, Clock: clock}
	store, err := db.Open("example", &db.Options{FS: vfs.NewMem(), Expiry: expiry})
	must(err)
	defer store.Close()

	l, err := openLocks(store)
	must(err)
	anna, _, err := l.acquire("printer", time.Minute)
	fmt.Println("anna:", anna, err)
	_, ok, err := l.acquire("printer", time.Minute)
	fmt.Println("free:", ok, err)

	passed.Add(60) // anna does nothing for a minute
	ben, _, err := l.acquire("printer", time.Minute)
	fmt.Println("ben:", ben, err)
	fmt.Println("anna writes:", l.update(anna, func(t *db.Transaction) error {
		return t.Put([]byte("printed"), []byte("by anna"))
	}))
	ok, err = l.renew(ben, time.Minute)
	fmt.Println("ben renews:", ok, err)
	// Output:
	// anna: {printer 1} <nil>
	// free: false <nil>
	// ben: {printer 2} <nil>
	// anna writes: the lease has ended
	// ben renews: true <nil>
}
