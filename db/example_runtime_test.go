package db_test

import (
	"context"
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

// A night with many writes gets more compactions and a smaller cache than the day.
func ExampleDB_SetOptions() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	o := store.Options()
	o.Cache.Size = 8 << 20
	o.Compaction.MaxConcurrent = 2
	if err := store.SetOptions(&o); err != nil {
		log.Fatal(err)
	}
	fmt.Println("cache:", store.Metrics().Cache.Capacity>>20, "MiB")

	o.ReadOnly = true
	fmt.Println(store.SetOptions(&o))
	// Output:
	// cache: 8 MiB
	// sievedb: SetOptions: Options.ReadOnly cannot be changed while the store is open; begin with the copy that DB.Options returns
}

// While a backup program copies the disk, no compaction should write.
func ExampleDB_PauseCompactions() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	resume, err := store.PauseCompactions(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("pauses:", store.Metrics().Compactions.Pauses)
	resume()
	fmt.Println("pauses:", store.Metrics().Compactions.Pauses)
	// Output:
	// pauses: 1
	// pauses: 0
}

// The logs are on a device of their own. Later calls of Open find them without the option.
func ExampleOptions_logDir() {
	disks := vfs.NewMem()
	store, err := db.Open("slow/db", &db.Options{FS: disks, LogDir: "fast/logs"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Put([]byte("key"), []byte("value"), db.Sync); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	logs, err := disks.List("fast/logs")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(logs)
	store, err = db.Open("slow/db", &db.Options{FS: disks})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	value, err := store.Get([]byte("key"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", value)
	// Output:
	// [000001.log LOCK LOGS]
	// value
}
