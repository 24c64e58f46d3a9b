package db_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// A table that was written without a store is added to one.
func ExampleDB_Ingest() {
	disk := vfs.NewMem()
	file, err := disk.Create("incoming.ldb")
	if err != nil {
		log.Fatal(err)
	}
	w := sstable.NewWriter(file, sstable.WriterOptions{})
	for i := range 1000 {
		key := sstable.Key{User: fmt.Appendf(nil, "row%03d", i)}
		if err := w.Add(key.Append(nil), fmt.Append(nil, i*i)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}

	store, err := db.Open("db", &db.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	info, err := store.Ingest(context.Background(), []string{"incoming.ldb"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("row012"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d entries, %d table linked; row012 is %s\n", info.Entries, info.Linked, value)
	// Output: 1000 entries, 1 table linked; row012 is 144
}
