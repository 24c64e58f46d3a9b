package db_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The snippets of docs/getting-started.md are parts of these examples, line for line.

func Example_tourOpen() {
	parent, err := os.MkdirTemp("", "tour")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "animals")

	store, err := db.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	if err := store.Put([]byte("ant"), []byte("6 legs"), nil); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("ant"))
	switch {
	case errors.Is(err, db.ErrNotFound):
		fmt.Println("no such animal")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("an ant has %s\n", value)
	}
	if err := store.Delete([]byte("ant"), nil); err != nil {
		log.Fatal(err)
	}
	found, err := store.Has([]byte("ant"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("still there:", found)
	// Output:
	// an ant has 6 legs
	// still there: false
}

func Example_tourBatch() {
	store := openMem()
	defer store.Close()

	var b db.Batch
	b.Put([]byte("account/alice"), []byte("60"))
	b.Put([]byte("account/bob"), []byte("40"))
	b.Delete([]byte("transfer/17"))
	if err := store.Apply(&b, nil); err != nil {
		log.Fatal(err)
	}
	b.Reset() // reuse its memory for the next batch

	found, err := store.Has([]byte("account/bob"))
	fmt.Println(found, err)
	// Output: true <nil>
}

func Example_tourIterate() {
	store := openMem()
	defer store.Close()
	for _, key := range []string{"order/1", "order/2", "order/3", "person/1"} {
		must(store.Put([]byte(key), []byte("…"), nil))
	}

	entries, failed := store.All(db.PrefixBounds([]byte("order/")))
	for key, value := range entries {
		fmt.Printf("%s: %d bytes\n", key, len(value))
	}
	if err := failed(); err != nil { // the loop may have ended early
		log.Fatal(err)
	}

	it, err := store.NewIterator(db.PrefixBounds([]byte("order/")))
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for ok := it.SeekGE([]byte("order/17")); ok; ok = it.Next() {
		fmt.Printf("%s: %d bytes\n", it.Key(), len(it.Value()))
	}
	if err := it.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order/1: 3 bytes
	// order/2: 3 bytes
	// order/3: 3 bytes
	// order/2: 3 bytes
	// order/3: 3 bytes
}

func Example_tourSnapshot() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("motto"), []byte("slow and steady"), nil))

	snapshot := store.NewSnapshot()
	defer snapshot.Close()
	if err := store.Put([]byte("motto"), []byte("move fast"), nil); err != nil {
		log.Fatal(err)
	}
	before, err := snapshot.Get([]byte("motto"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", before)
	// Output: slow and steady
}

func Example_tourDurability() {
	store := openMem()
	defer store.Close()

	for i := range 1000 {
		if err := store.Put(fmt.Appendf(nil, "event/%06d", i), []byte("…"), db.NoSync); err != nil {
			log.Fatal(err)
		}
	}
	if err := store.SyncLog(); err != nil { // one fsync makes all of them durable
		log.Fatal(err)
	}
	fmt.Println(store.Metrics().Writes.Batches)
	// Output: 1000
}

func Example_tourExplain() {
	store := openMem()
	defer store.Close()
	for i := range 1000 {
		must(store.Put(fmt.Appendf(nil, "user%03d", i), []byte("…"), db.NoSync))
	}
	must(store.Flush())

	explanation, err := store.Explain([]byte("user500?"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("disk reads:", explanation.DiskReads, "saved by filters:", explanation.ReadsSaved)

	if _, err := store.Get([]byte("user501?")); !errors.Is(err, db.ErrNotFound) {
		log.Fatal(err)
	}
	total := store.Metrics().Total()
	fmt.Println("filter checks:", total.FilterChecks, "answered absent:", total.FilterNegatives)
	// Output:
	// disk reads: 0 saved by filters: 1
	// filter checks: 1 answered absent: 1
}

func Example_tourLoad() {
	store := openMem()
	defer store.Close()

	loader, err := store.NewLoader()
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close() // discards what was not committed
	for i := range 100_000 {
		if err := loader.Put(fmt.Appendf(nil, "row%08d", i), []byte("…")); err != nil {
			log.Fatal(err)
		}
	}
	if err := loader.Commit(); err != nil { // all rows become visible together
		log.Fatal(err)
	}
	found, err := store.Has([]byte("row00099999"))
	fmt.Println(found, err)
	// Output: true <nil>
}

func Example_tourCheck() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("ant"), []byte("6 legs"), nil))
	must(store.Flush())

	report, err := store.Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, fault := range report.Faults {
		fmt.Println(fault)
	}
	fmt.Println("faults:", len(report.Faults))
	// Output: faults: 0
}

func Example_tourMemory() {
	store, err := db.Open("test", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store.Put([]byte("k"), []byte("v"), nil))
	// Output: <nil>
}
