package backup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Two backups of a database, and a restore of the first one. The file system is in memory here; without
// it, NewDir, db.Open and Restore use the operating system's.
func Example() {
	ctx, mem := context.Background(), vfs.NewMem()
	store, err := db.Open("fruit", &db.Options{FS: mem})
	if err != nil {
		log.Fatal(err)
	}
	storage, err := backup.NewDir(mem, "backups")
	if err != nil {
		log.Fatal(err)
	}
	repo := backup.Open(storage)

	_ = store.Put([]byte("apple"), []byte("green"), nil)
	first, err := repo.Create(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	_ = store.Put([]byte("apple"), []byte("red"), nil)
	if _, err = repo.Create(ctx, store, nil); err != nil {
		log.Fatal(err)
	}

	if _, err = repo.Restore(ctx, first.ID, "restored", &backup.RestoreOptions{FS: mem}); err != nil {
		log.Fatal(err)
	}
	_ = store.Close()
	if store, err = db.Open("restored", &db.Options{FS: mem}); err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	value, err := store.Get([]byte("apple"))
	fmt.Println(string(value), err)

	report, err := repo.Prune(ctx, backup.Policy{KeepLast: 1})
	fmt.Println(len(report.Kept), "kept,", len(report.Removed), "removed:", err)
	// Output:
	// green <nil>
	// 1 kept, 1 removed: <nil>
}
