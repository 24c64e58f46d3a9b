package db_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Sessions of last year are deleted; those of this year stay.
func ExampleDB_DeleteRange() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for _, key := range []string{"session/2025-07-01", "session/2025-12-31", "session/2026-01-01"} {
		if err := store.Put([]byte(key), []byte("data"), db.NoSync); err != nil {
			log.Fatal(err)
		}
	}
	err = store.DeleteRange(context.Background(), []byte("session/2025"), []byte("session/2026"), nil)
	if err != nil {
		log.Fatal(err)
	}
	it, err := store.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for key := range it.All() {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// session/2026-01-01
}

// A shopping cart is replaced as a whole.
func ExampleBatch_DeleteRange() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Put([]byte("cart/17/item/1"), []byte("a pot"), nil); err != nil {
		log.Fatal(err)
	}
	if err := store.Put([]byte("cart/17/item/2"), []byte("a lid"), nil); err != nil {
		log.Fatal(err)
	}
	cart := db.PrefixBounds([]byte("cart/17/"))
	var b db.Batch
	b.DeleteRange(cart.LowerBound, cart.UpperBound)
	b.Put([]byte("cart/17/item/1"), []byte("a kettle"))
	if err := store.Apply(&b, nil); err != nil {
		log.Fatal(err)
	}
	it, err := store.NewIterator(cart)
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for key, value := range it.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	// Output:
	// cart/17/item/1: a kettle
}
