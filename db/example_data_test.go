package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Two namespaces with equal keys, listed, and one of them dropped.
func ExampleDB_Namespace() {
	store := openMem()
	defer store.Close()
	for _, name := range []string{"users", "orders"} {
		n, err := store.Namespace(name)
		must(err)
		must(n.Put([]byte("1"), []byte("the first of "+name), nil))
	}
	names, err := store.Namespaces()
	must(err)
	fmt.Println(names)
	users, err := store.Namespace("users")
	must(err)
	value, err := users.Get([]byte("1"))
	must(err)
	fmt.Printf("%s\n", value)
	must(users.Drop(context.Background()))
	names, err = store.Namespaces()
	must(err)
	fmt.Println(names)
	// Output:
	// [orders users]
	// the first of users
	// [orders]
}

// Sessions of last year are deleted; those of this year stay.
func ExampleDB_DeleteRange() {
	store := openMem()
	defer store.Close()
	for _, key := range []string{"session/2025-07-01", "session/2025-12-31", "session/2026-01-01"} {
		must(store.Put([]byte(key), []byte("data"), db.NoSync))
	}
	err := store.DeleteRange(context.Background(), []byte("session/2025"), []byte("session/2026"), nil)
	must(err)
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for key := range it.All() {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// session/2026-01-01
}

// A shopping cart is replaced as a whole.
func ExampleBatch_DeleteRange() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("cart/17/item/1"), []byte("a pot"), nil))
	must(store.Put([]byte("cart/17/item/2"), []byte("a lid"), nil))
	cart := db.PrefixBounds([]byte("cart/17/"))
	var b db.Batch
	b.DeleteRange(cart.LowerBound, cart.UpperBound)
	b.Put([]byte("cart/17/item/1"), []byte("a kettle"))
	must(store.Apply(&b, nil))
	it, err := store.NewIterator(cart)
	must(err)
	defer it.Close()
	for key, value := range it.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	// Output:
	// cart/17/item/1: a kettle
}

// A session ends after half an hour. The example moves the clock itself.
func ExampleDB_PutTTL() {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64 // the clock is read by several goroutines
	now := func() time.Time { return noon.Add(time.Duration(passed.Load())) }
	options := &db.Options{
		FS:     vfs.NewMem(),
		Expiry: db.ExpiryOptions{Prefixes: [][]byte{[]byte("session/")}, Clock: now},
	}
	store, err := db.Open("db", options)
	must(err)
	defer store.Close()
	must(store.PutTTL([]byte("session/8f3a"), []byte("alice"), 30*time.Minute, nil))
	for range 2 {
		switch user, err := store.Get([]byte("session/8f3a")); {
		case errors.Is(err, db.ErrNotFound):
			fmt.Println(now().Format(time.TimeOnly), "the session has ended")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(now().Format(time.TimeOnly), "the session of", string(user))
		}
		passed.Add(int64(30 * time.Minute))
	}
	// Output:
	// 12:00:00 the session of alice
	// 12:30:00 the session has ended
}

// Compactions delete the sessions of an old version of a program and rewrite its other values.
func ExampleCompactionOptions_filter() {
	options := &db.Options{FS: vfs.NewMem()}
	options.Compaction.Filter = func(key, value []byte) ([]byte, bool) {
		switch {
		case bytes.HasPrefix(key, []byte("session/v1/")):
			return nil, false
		case bytes.HasPrefix(value, []byte("http://")):
			return append([]byte("https://"), value[len("http://"):]...), true
		}
		return value, true
	}
	store, err := db.Open("db", options)
	must(err)
	defer store.Close()
	for key, value := range map[string]string{"session/v1/7": "alice", "session/v2/8": "bob", "home": "http://example.com"} {
		must(store.Put([]byte(key), []byte(value), nil))
	}
	must(store.Compact(context.Background(), nil, nil)) // now, instead of sometime
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for key, value := range it.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println(store.Metrics().Compactions.ValuesDropped, "dropped")
	// Output:
	// home: https://example.com
	// session/v2/8: bob
	// 1 dropped
}

// A table that was written without a store is added to one.
func ExampleDB_Ingest() {
	disk := vfs.NewMem()
	file, err := disk.Create("incoming.ldb")
	must(err)
	w := sstable.NewWriter(file, sstable.WriterOptions{})
	for i := range 1000 {
		key := sstable.Key{User: fmt.Appendf(nil, "row%03d", i)}
		must(w.Add(key.Append(nil), fmt.Append(nil, i*i)))
	}
	_, err = w.Finish()
	must(err)
	must(file.Close())

	store, err := db.Open("db", &db.Options{FS: disk})
	must(err)
	defer store.Close()
	info, err := store.Ingest(context.Background(), []string{"incoming.ldb"}, nil)
	must(err)
	value, err := store.Get([]byte("row012"))
	must(err)
	fmt.Printf("%d entries, %d table linked; row012 is %s\n", info.Entries, info.Linked, value)
	// Output: 1000 entries, 1 table linked; row012 is 144
}
