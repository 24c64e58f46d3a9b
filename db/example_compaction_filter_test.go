package db_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

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
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for key, value := range map[string]string{"session/v1/7": "alice", "session/v2/8": "bob", "home": "http://example.com"} {
		if err := store.Put([]byte(key), []byte(value), nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := store.Compact(context.Background(), nil, nil); err != nil { // now, instead of sometime
		log.Fatal(err)
	}
	it, err := store.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
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
