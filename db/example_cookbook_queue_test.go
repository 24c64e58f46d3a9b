package db_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/db"
)

// queue has its entries under their numbers, from 1, and two counters: the number of the last entry that was
// pushed, and that of the last one that was taken.
type queue struct {
	store         *db.DB
	keys, entries *db.Namespace
}

func openQueue(store *db.DB, name string) (q queue, err error) {
	q.store = store
	if q.keys, err = store.Namespace(name); err != nil {
		return q, err
	}
	q.entries, err = q.keys.Namespace("entries")
	return q, err
}

var pushed, taken = []byte("pushed"), []byte("taken")

// number returns a counter.
func (q queue) number(t *db.Transaction, key []byte) (uint64, error) {
	value, err := q.keys.In(t).Get(key)
	if errors.Is(err, db.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// push appends entries, all or none.
func (q queue) push(entries ...[]byte) error {
	return q.store.Update(func(t *db.Transaction) error {
		last, err := q.number(t, pushed)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			last++
			if err := q.entries.In(t).Put(entryKey(last), entry); err != nil {
				return err
			}
		}
		return q.keys.In(t).Put(pushed, entryKey(last))
	})
}

// entryKey is big-endian, so keys are in the order of their numbers.
func entryKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// take removes the first entry and makes the writes of work, all or none. It returns false if the queue is empty.
func (q queue) take(work func(t *db.Transaction, number uint64, entry []byte) error) (ok bool, err error) {
	err = q.store.Update(func(t *db.Transaction) error {
		ok = false
		number, entry, err := q.first(t)
		if err != nil || number == 0 {
			return err
		}
		if err := work(t, number, entry); err != nil {
			return err
		}
		ok = true
		return q.remove(t, number)
	})
	return ok && err == nil, err
}

// first returns the first entry and its number, which is 0 if there is none.
func (q queue) first(t *db.Transaction) (number uint64, entry []byte, err error) {
	done, err := q.number(t, taken)
	if err != nil {
		return 0, nil, err
	}
	entry, err = q.entries.In(t).Get(entryKey(done + 1))
	if errors.Is(err, db.ErrNotFound) {
		return 0, nil, nil
	}
	return done + 1, entry, err
}

func (q queue) remove(t *db.Transaction, number uint64) error {
	if err := q.entries.In(t).Delete(entryKey(number)); err != nil {
		return err
	}
	return q.keys.In(t).Put(taken, entryKey(number))
}

func Example_cookbookQueue() {
	store := openMem()
	defer store.Close()

	q, err := openQueue(store, "mails")
	must(err)
	must(q.push([]byte("to anna"), []byte("to ben")))
	for {
		ok, err := q.take(func(t *db.Transaction, number uint64, entry []byte) error {
			return t.Put(fmt.Appendf(nil, "outbox/%d", number), entry)
		})
		must(err)
		if !ok {
			break
		}
	}
	entries, failed := store.All(db.PrefixBounds([]byte("outbox/")))
	for key, value := range entries {
		fmt.Printf("%s: %s\n", key, value)
	}
	must(failed())
	// Output:
	// outbox/1: to anna
	// outbox/2: to ben
}
