package db_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The copy has what was written before, and is a database of its own.
func ExampleDB_Checkpoint() {
	disk := vfs.NewMem()
	store, err := db.Open("db", &db.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Put([]byte("fruit"), []byte("apple"), db.NoSync); err != nil {
		log.Fatal(err)
	}
	info, err := store.Checkpoint(context.Background(), "copies/monday", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Put([]byte("fruit"), []byte("pear"), db.NoSync); err != nil {
		log.Fatal(err)
	}
	monday, err := db.Open("copies/monday", &db.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer monday.Close()
	value, err := monday.Get([]byte("fruit"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, at sequence number %d\n", value, info.Seq)
	// Output: apple, at sequence number 1
}
