package db_test

import (
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// A session ends after half an hour. The example moves the clock itself.
func ExampleDB_PutTTL() {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64 // the clock is read by several goroutines
	now := func() time.Time { return noon.Add(time.Duration(passed.Load())) }
	options := &db.Options{
		FS:     vfs.NewMem(),
		Expiry: db.ExpiryOptions{Prefixes: [][]byte{[]byte("session/")}, Clock: now},
	}
	store, err := db.Open("db", options)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.PutTTL([]byte("session/8f3a"), []byte("alice"), 30*time.Minute, nil); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		switch user, err := store.Get([]byte("session/8f3a")); {
		case errors.Is(err, db.ErrNotFound):
			fmt.Println(now().Format(time.TimeOnly), "the session has ended")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(now().Format(time.TimeOnly), "the session of", string(user))
		}
		passed.Add(int64(30 * time.Minute))
	}
	// Output:
	// 12:00:00 the session of alice
	// 12:30:00 the session has ended
}
