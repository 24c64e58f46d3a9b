package db_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Two namespaces with equal keys, listed, and one of them dropped.
func ExampleDB_Namespace() {
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for _, name := range []string{"users", "orders"} {
		n, err := store.Namespace(name)
		if err != nil {
			log.Fatal(err)
		}
		if err := n.Put([]byte("1"), []byte("the first of "+name), nil); err != nil {
			log.Fatal(err)
		}
	}
	names, err := store.Namespaces()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	users, err := store.Namespace("users")
	if err != nil {
		log.Fatal(err)
	}
	value, err := users.Get([]byte("1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", value)
	if err := users.Drop(context.Background()); err != nil {
		log.Fatal(err)
	}
	names, err = store.Namespaces()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	// Output:
	// [orders users]
	// the first of users
	// [orders]
}
