package db_test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// add adds delta to a counter of 8 bytes, and returns the sum.
func add(store *db.DB, key []byte, delta uint64) (sum uint64, err error) {
	err = store.Modify(key, func(old []byte) ([]byte, error) {
		sum, err = count(old) // may run more than once: it starts anew from old each time
		sum += delta
		return binary.BigEndian.AppendUint64(nil, sum), err
	}, nil)
	return sum, err
}

// count decodes a counter. A key without a value is 0.
func count(value []byte) (uint64, error) {
	switch len(value) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64(value), nil
	default:
		return 0, fmt.Errorf("a counter of %d bytes instead of 8", len(value))
	}
}

// addOnce is add for callers that may repeat a request: a request is counted once in a day.
// Values under "request/" expire: it is in Options.Expiry.Prefixes.
func addOnce(store *db.DB, key []byte, request string, delta uint64) error {
	seen := append([]byte("request/"), request...)
	return store.Update(func(t *db.Transaction) error {
		values, err := t.MultiGet([][]byte{seen, key})
		if err != nil || values[0] != nil { // counted already
			return err
		}
		sum, err := count(values[1])
		if err != nil {
			return err
		}
		if err := t.PutTTL(seen, nil, 24*time.Hour); err != nil {
			return err
		}
		return t.Put(key, binary.BigEndian.AppendUint64(nil, sum+delta))
	})
}

func Example_cookbookCounter() {
	expiry := db.ExpiryOptions{Prefixes: [][]byte{[]byte("request/")}}
	store, err := db.Open("example", &db.Options{FS: vfs.NewMem(), Expiry: expiry})
	must(err)
	defer store.Close()

	visits := []byte("visits")
	fmt.Println(add(store, visits, 3))
	for range 2 { // the second call is a repetition
		must(addOnce(store, visits, "b71c", 10))
	}
	fmt.Println(add(store, visits, 1))
	// Output:
	// 3 <nil>
	// 14 <nil>
}
