package db_test

import (
	"fmt"

	"github.com/sievedb/sievedb/db"
)

// orders returns a store with a few orders of two users.
func orders() *db.DB {
	store := openMem()
	for _, key := range []string{"order/anna/1", "order/anna/2", "order/bert/1", "user/anna"} {
		must(store.Put([]byte(key), []byte("of "+key), nil))
	}
	return store
}

// A loop over the keys with a prefix. Nothing has to be closed.
func ExampleDB_All() {
	store := orders()
	defer store.Close()
	entries, failed := store.All(db.PrefixBounds([]byte("order/")))
	for key, value := range entries {
		fmt.Printf("%s: %s\n", key, value)
	}
	must(failed())
	// Output:
	// order/anna/1: of order/anna/1
	// order/anna/2: of order/anna/2
	// order/bert/1: of order/bert/1
}

// The newest order of each user, by one iterator.
func ExampleIterator_SetBounds() {
	store := orders()
	defer store.Close()
	it, err := store.NewIterator(&db.IterOptions{KeysOnly: true})
	must(err)
	defer it.Close()
	for _, user := range []string{"anna", "bert"} {
		bounds := db.PrefixBounds([]byte("order/" + user + "/"))
		it.SetBounds(bounds.LowerBound, bounds.UpperBound)
		if it.Last() {
			fmt.Printf("%s\n", it.Key())
		}
	}
	must(it.Err())
	// Output:
	// order/anna/2
	// order/bert/1
}

// A clone shows what its iterator shows, whatever was written since.
func ExampleIterator_Clone() {
	store := orders()
	defer store.Close()
	it, err := store.NewIterator(db.PrefixBounds([]byte("order/anna/")))
	must(err)
	defer it.Close()
	must(store.Delete([]byte("order/anna/1"), nil))
	clone, err := it.Clone(nil)
	must(err)
	defer clone.Close()
	for key := range clone.Backward() {
		fmt.Printf("%s\n", key)
	}
	must(clone.Err())
	// Output:
	// order/anna/2
	// order/anna/1
}
