package db_test

import (
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// How much the users of a program store, with what is not in tables yet.
func ExampleDB_EstimateSize() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for _, user := range []string{"anna", "bert"} {
		if err := store.Put([]byte("user/"+user+"/photo"), make([]byte, 100_000), nil); err != nil {
			log.Fatal(err)
		}
	}
	bounds := db.PrefixBounds([]byte("user/anna/"))
	size, err := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
	if err != nil {
		log.Fatal(err)
	}
	usage, err := store.DiskUsage()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("anna: %d KB in memory, %d in tables\n", size.Memtables/1000, size.Tables)
	fmt.Printf("logs: %d KB, tables: %d\n", usage.Logs/1000, usage.Tables)
	// Output:
	// anna: 100 KB in memory, 0 in tables
	// logs: 200 KB, tables: 0
}
