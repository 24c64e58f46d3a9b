package db_test

import (
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Three databases share one cache, the memory of memtables, open files and compaction slots.
func ExampleNewResources() {
	shared, err := db.NewResources(db.ResourcesOptions{MaxStores: 8, CacheSize: 64 << 20, MemtableSize: 32 << 20})
	if err != nil {
		log.Fatal(err)
	}
	for _, tenant := range []string{"north", "south", "west"} {
		store, err := db.Open(tenant, &db.Options{FS: vfs.NewMem(), Resources: shared})
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		if err := store.Put([]byte("name"), []byte(tenant), nil); err != nil {
			log.Fatal(err)
		}
	}
	m := shared.Metrics()
	fmt.Printf("%d of %d stores, %d of %d MiB for memtables\n", m.Stores, m.MaxStores, m.Memtables.Used>>20, m.Memtables.Limit>>20)
	// Output: 3 of 8 stores, 3 of 32 MiB for memtables
}
