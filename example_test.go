package sievedb_test

import (
	"fmt"
	"log"
	"os"

	"github.com/sievedb/sievedb/db"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := db.Open(dir, nil) // creates the database if there is none
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Put([]byte("spider"), []byte("8 legs"), nil); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("spider"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a spider has %s\n", value)
	// Output:
	// a spider has 8 legs
}
