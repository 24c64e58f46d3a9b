package db_test

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sievedb/sievedb/db"
)

// A transfer between two accounts: both change, or none.
func ExampleDB_Update() {
	store := openMem()
	defer store.Close()
	balance := func(t *db.Transaction, name string) (int, error) {
		value, err := t.Get([]byte(name))
		if errors.Is(err, db.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(value))
	}
	transfer := func(from, to string, amount int) error {
		return store.Update(func(t *db.Transaction) error {
			a, err := balance(t, from)
			if err != nil {
				return err
			}
			b, err := balance(t, to)
			if err != nil {
				return err
			}
			if a < amount {
				return fmt.Errorf("%s has only %d", from, a)
			}
			if err := t.Put([]byte(from), []byte(strconv.Itoa(a-amount))); err != nil {
				return err
			}
			return t.Put([]byte(to), []byte(strconv.Itoa(b+amount)))
		})
	}
	must(store.Put([]byte("alice"), []byte("100"), nil))
	fmt.Println(transfer("alice", "bob", 30))
	fmt.Println(transfer("alice", "bob", 80))
	must(store.View(func(t *db.Transaction) error {
		a, err := balance(t, "alice")
		if err != nil {
			return err
		}
		b, err := balance(t, "bob")
		fmt.Println("alice:", a, "bob:", b)
		return err
	}))
	// Output:
	// <nil>
	// alice has only 70
	// alice: 70 bob: 30
}

// A lock that one of several programs' goroutines gets.
func ExampleDB_CompareAndSwap() {
	store := openMem()
	defer store.Close()
	for _, name := range []string{"anna", "ben"} {
		swapped, err := store.CompareAndSwap([]byte("owner"), nil, []byte(name), nil)
		must(err)
		fmt.Println(name, swapped)
	}
	// Output:
	// anna true
	// ben false
}

// A counter that many goroutines may increment.
func ExampleDB_Modify() {
	store := openMem()
	defer store.Close()
	for range 3 {
		err := store.Modify([]byte("visits"), func(old []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(old)) // old is nil at first
			return []byte(strconv.Itoa(n + 1)), nil
		}, db.NoSync)
		must(err)
	}
	visits, err := store.Get([]byte("visits"))
	must(err)
	fmt.Printf("%s visits\n", visits)
	// Output:
	// 3 visits
}

// A transaction that is not one function, and a conflict.
func ExampleDB_NewTransaction() {
	store := openMem()
	defer store.Close()
	t := store.NewTransaction(nil)
	defer t.Close() // does nothing after Commit
	if _, err := t.Get([]byte("seat 7A")); errors.Is(err, db.ErrNotFound) {
		must(t.Put([]byte("seat 7A"), []byte("me")))
	}
	// Meanwhile another client takes the seat.
	must(store.Put([]byte("seat 7A"), []byte("you"), nil))
	fmt.Println("conflict:", errors.Is(t.Commit(), db.ErrConflict))
	// Output:
	// conflict: true
}
