package db_test

import (
	"fmt"
	"log"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// How long do writes wait for the disk? The file system in memory answers within a second.
func ExampleDB_Metrics_latency() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for i := range 3 {
		if err := store.Put(fmt.Appendf(nil, "key%d", i), []byte("value"), db.Sync); err != nil {
			log.Fatal(err)
		}
	}
	puts := store.Metrics().Latency.SyncedPut
	fmt.Println("measured:", puts.Count)
	fmt.Println("median below a second:", puts.Quantile(0.5) < time.Second)
	fmt.Println("99 % below a second:", puts.Quantile(0.99) < time.Second)
	for _, b := range puts.Buckets {
		if b.From > time.Minute {
			fmt.Println(b.Count, "writes from", b.From, "to", b.To)
		}
	}
	// Output:
	// measured: 3
	// median below a second: true
	// 99 % below a second: true
}
