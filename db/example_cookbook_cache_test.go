package db_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// cached returns the value of key from the cache, or else from load, and keeps it for ttl.
func cached(
	store *db.DB, ns *db.Namespace, key []byte, ttl time.Duration, load func() ([]byte, error),
) (value []byte, err error) {
	value, err = ns.Get(key)
	if !errors.Is(err, db.ErrNotFound) {
		return value, err
	}
	t := store.NewTransaction(nil)
	defer t.Close()
	t.SetWriteOptions(db.Buffered) // a cache may lose what it wrote last
	value, err = ns.In(t).Get(key) // from here on, every other write of key is a conflict
	if !errors.Is(err, db.ErrNotFound) {
		return value, err
	}
	if value, err = load(); err != nil {
		return nil, err
	}
	if err := ns.In(t).PutTTL(key, value, ttl); err != nil {
		return nil, err
	}
	if err := t.Commit(); err != nil && !errors.Is(err, db.ErrConflict) {
		return nil, err
	}
	return value, nil // after a conflict it is returned, but not kept: it may be out of date
}

// invalidate removes a value. It is called after the source has changed, also if the cache has no value.
func invalidate(ns *db.Namespace, key []byte) error { return ns.Delete(key, db.NoSync) }

func Example_cookbookCache() {
	expiry := db.ExpiryOptions{Namespaces: []string{"cache"}}
	store, err := db.Open("example", &db.Options{FS: vfs.NewMem(), Expiry: expiry})
	must(err)
	defer store.Close()
	ns, err := store.Namespace("cache")
	must(err)

	source := "sunny"
	load := func() ([]byte, error) {
		fmt.Println("asking the source")
		return []byte(source), nil
	}
	show := func() {
		value, err := cached(store, ns, []byte("weather"), time.Minute, load)
		fmt.Println(string(value), err)
	}
	show()
	show()
	source = "rainy"
	must(invalidate(ns, []byte("weather")))
	show()
	// Output:
	// asking the source
	// sunny <nil>
	// sunny <nil>
	// asking the source
	// rainy <nil>
}
