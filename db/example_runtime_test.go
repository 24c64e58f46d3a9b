package db_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// How long do writes wait for the disk? The file system in memory answers within a second.
func ExampleDB_Metrics_latency() {
	store := openMem()
	defer store.Close()
	for i := range 3 {
		must(store.Put(fmt.Appendf(nil, "key%d", i), []byte("value"), db.Sync))
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
	store := openMem()
	defer store.Close()
	o := store.Options()
	o.Cache.Size = 8 << 20
	o.Compaction.MaxConcurrent = 2
	must(store.SetOptions(&o))
	fmt.Println("cache:", store.Metrics().Cache.Capacity>>20, "MiB")

	o.ReadOnly = true
	fmt.Println(store.SetOptions(&o))
	// Output:
	// cache: 8 MiB
	// sievedb: SetOptions: Options.ReadOnly cannot be changed while the store is open; begin with the copy that DB.Options returns
}

// While a backup program copies the disk, no compaction should write.
func ExampleDB_PauseCompactions() {
	store := openMem()
	defer store.Close()
	resume, err := store.PauseCompactions(context.Background())
	must(err)
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
	must(err)
	must(store.Put([]byte("key"), []byte("value"), db.Sync))
	must(store.Close())
	logs, err := disks.List("fast/logs")
	must(err)
	fmt.Println(logs)
	store, err = db.Open("slow/db", &db.Options{FS: disks})
	must(err)
	defer store.Close()
	value, err := store.Get([]byte("key"))
	must(err)
	fmt.Printf("%s\n", value)
	// Output:
	// [000001.log LOCK LOGS]
	// value
}

// The copy has what was written before, and is a database of its own.
func ExampleDB_Checkpoint() {
	disk := vfs.NewMem()
	store, err := db.Open("db", &db.Options{FS: disk})
	must(err)
	defer store.Close()
	must(store.Put([]byte("fruit"), []byte("apple"), db.NoSync))
	info, err := store.Checkpoint(context.Background(), "copies/monday", nil)
	must(err)
	must(store.Put([]byte("fruit"), []byte("pear"), db.NoSync))
	monday, err := db.Open("copies/monday", &db.Options{FS: disk})
	must(err)
	defer monday.Close()
	value, err := monday.Get([]byte("fruit"))
	must(err)
	fmt.Printf("%s, at sequence number %d\n", value, info.Seq)
	// Output: apple, at sequence number 1
}

// How much the users of a program store, with what is not in tables yet.
func ExampleDB_EstimateSize() {
	store := openMem()
	defer store.Close()
	for _, user := range []string{"anna", "bert"} {
		must(store.Put([]byte("user/"+user+"/photo"), bytes.Repeat([]byte("p"), 100_000), nil))
	}
	bounds := db.PrefixBounds([]byte("user/anna/"))
	size, err := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
	must(err)
	usage, err := store.DiskUsage()
	must(err)
	fmt.Printf("anna: %d KB in memory, %d in tables\n", size.Memtables/1000, size.Tables)
	fmt.Printf("logs: %d KB, tables: %d\n", (usage.Logs-usage.LogsReserved)/1000, usage.Tables)
	// Output:
	// anna: 100 KB in memory, 0 in tables
	// logs: 200 KB, tables: 0
}

// Three databases share one cache, the memory of memtables, open files and compaction slots.
func ExampleNewResources() {
	shared, err := db.NewResources(db.ResourcesOptions{MaxStores: 8, CacheSize: 64 << 20, MemtableSize: 32 << 20})
	must(err)
	for _, tenant := range []string{"north", "south", "west"} {
		store, err := db.Open(tenant, &db.Options{FS: vfs.NewMem(), Resources: shared})
		must(err)
		defer store.Close()
		must(store.Put([]byte("name"), []byte(tenant), nil))
	}
	m := shared.Metrics()
	fmt.Printf("%d of %d stores, %d of %d MiB for memtables\n", m.Stores, m.MaxStores, m.Memtables.Used>>20, m.Memtables.Limit>>20)
	// Output: 3 of 8 stores, 3 of 32 MiB for memtables
}
