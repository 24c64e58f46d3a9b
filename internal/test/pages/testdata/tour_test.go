package pages

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func Example() {
	dir, err := os.MkdirTemp("", "tour")
	try(err)
	defer os.RemoveAll(dir)
	func() {
		// The next snippet.
	}()
	store, err := db.Open(dir, nil)
	try(err)
	defer store.Close()
	func() {
		// The next snippet.
	}()
	for _, key := range []string{"order/1", "order/2", "order/3", "person/1"} {
		try(store.Put([]byte(key), []byte("…"), nil))
	}
	func() {
		// The next snippet.
		// The next snippet.
	}()
	try(store.Put([]byte("motto"), []byte("slow and steady"), nil))
	func() {
		// The next snippet.
		// The next snippet.
	}()
	for i := range 1000 {
		try(store.Put(fmt.Appendf(nil, "user%03d", i), []byte("…"), db.NoSync))
	}
	try(store.Flush())
	func() {
		// The next snippet.
		// The next snippet.
		// The next snippet.
	}()
	for _, key := range []string{"account/bob", "event/000999", "row00099999"} {
		found, err := store.Has([]byte(key))
		fmt.Println(key, found, err)
	}
	func() {
		// The next snippet.
		try(store.Put([]byte("k"), []byte("v"), nil))
	}()
	// Output:
	// an ant has 6 legs
	// still there: false
	// order/1: 3 bytes
	// order/2: 3 bytes
	// order/3: 3 bytes
	// order/2: 3 bytes
	// order/3: 3 bytes
	// slow and steady
	// disk reads: 0 saved by filters: 1
	// filter checks: 1 answered absent: 1
	// account/bob true <nil>
	// event/000999 true <nil>
	// row00099999 true <nil>
}
