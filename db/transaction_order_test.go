package db_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// orderReading is what a transaction of an orderRun read: single keys, and the ranges over which it walked. It
// writes that down, so that the changes of the store tell whether it was still so when it was committed.
type orderReading struct {
	Keys  map[string]string // the value, "" for none
	Walks []orderWalk
}

type orderWalk struct {
	Start, Limit string
	Found        map[string]string
}

// orderRun is a store in which transactions read keys that ranges, ingests, loads and batches change.
type orderRun struct {
	d       *db.DB
	fs      vfs.FS
	numbers atomic.Int64
	linked  atomic.Int64
	commits atomic.Int64
}

const orderKeys = 60

func orderKey(i int) []byte { return fmt.Appendf(nil, "r/%03d", i) }

// change makes a change of the keys that transactions read.
func (r *orderRun) change(t *testing.T, rnd *rand.Rand) error {
	from := rnd.IntN(orderKeys)
	to := from + 1 + rnd.IntN(orderKeys-from)
	switch n := rnd.IntN(10); {
	case n < 2:
		return r.d.DeleteRange(background, []byte("r/"), []byte("s"), nil)
	case n < 4:
		return r.d.DeleteRange(background, orderKey(from), orderKey(to), nil)
	case n < 5:
		return r.d.Put(orderKey(from), fmt.Append(nil, r.numbers.Add(1)), db.NoSync)
	case n < 6:
		l, err := r.d.NewLoader()
		for i := from; i < to && err == nil; i += 1 + rnd.IntN(5) {
			err = l.Put(orderKey(i), fmt.Append(nil, r.numbers.Add(1)))
		}
		if err == nil {
			err = l.Commit()
		}
		return err
	case n < 7:
		return r.d.Flush()
	}
	var entries []madeEntry
	for i := from; i < to; i += 1 + rnd.IntN(5) {
		entries = append(entries, madeEntry{string(orderKey(i)), 1, fmt.Sprint(r.numbers.Add(1))})
	}
	path := makeTable(t, r.fs, fmt.Sprint("in/", r.numbers.Add(1)), entries)
	info, err := r.d.Ingest(background, []string{path}, nil)
	r.linked.Add(int64(info.Linked))
	return err
}

// transact reads in a transaction and writes down what it read.
func (r *orderRun) transact(rnd *rand.Rand) error {
	name, keys, walks, seed := r.numbers.Add(1), rnd.IntN(3), rnd.IntN(2), rnd.Uint64()
	r.commits.Add(1)
	return r.d.Update(func(tx *db.Transaction) error {
		rnd := rand.New(rand.NewPCG(seed, 1))
		seen := orderReading{Keys: map[string]string{}}
		for range keys {
			key := orderKey(rnd.IntN(orderKeys))
			value, err := tx.Get(key)
			if err != nil && err != db.ErrNotFound {
				return err
			}
			seen.Keys[string(key)] = string(value)
			runtime.Gosched()
		}
		for range walks {
			from := rnd.IntN(orderKeys)
			w := orderWalk{Start: string(orderKey(from)), Limit: string(orderKey(from + 1 + rnd.IntN(8))), Found: map[string]string{}}
			entries, failed := tx.All(&db.IterOptions{LowerBound: []byte(w.Start), UpperBound: []byte(w.Limit)})
			for k, v := range entries {
				w.Found[string(k)] = string(v)
			}
			if err := failed(); err != nil {
				return err
			}
			seen.Walks = append(seen.Walks, w)
		}
		text, err := json.Marshal(seen)
		if err == nil {
			tx.SetWriteOptions(db.NoSync)
			err = tx.Put(fmt.Appendf(nil, "a/%d", name), text)
		}
		return err
	})
}

// requireOrder makes the changes once more, in their order, and compares what each transaction read with
// what was there when it was committed.
func (r *orderRun) requireOrder(t *testing.T) (transactions int) {
	now := map[string]string{}
	for c, err := range r.d.Changes(background, 0, &db.ChangeOptions{Unsynced: true}) {
		require.NoError(t, err)
		for e, err := range c.Entries() {
			require.NoError(t, err)
			switch {
			case e.Kind == db.EntryDeleteRange:
				for k := range now {
					if k >= string(e.Key) && k < string(e.Value) {
						delete(now, k)
					}
				}
			case e.Kind == db.EntryDelete:
				delete(now, string(e.Key))
			case strings.HasPrefix(string(e.Key), "a/"):
				transactions++
				requireRead(t, now, e.Value)
			default:
				now[string(e.Key)] = string(e.Value)
			}
		}
	}
	return transactions
}

func requireRead(t *testing.T, now map[string]string, text []byte) {
	var seen orderReading
	require.NoError(t, json.Unmarshal(text, &seen))
	for key, value := range seen.Keys {
		require.Equal(t, now[key], value, "%s, as it was at the commit", key)
	}
	for _, w := range seen.Walks {
		want := map[string]string{}
		for k, v := range now {
			if k >= w.Start && k < w.Limit {
				want[k] = v
			}
		}
		require.Equal(t, want, w.Found, "%s to %s, as it was at the commit", w.Start, w.Limit)
	}
}

// Transactions are serializable in the order of their commits, whatever changes what they read: tables
// that are removed, linked, loaded or rewritten, and batches. None gives up because of them.
func TestWhatATransactionReadIsThereWhenItIsCommitted(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		steps := 150
		if testing.Short() {
			steps = 60
		}
		o := testOptions(vfs.NewMem())
		o.Changes = db.ChangeRetention{Bytes: 1 << 40}
		o.Memtables.Size = 8 << 10
		r := &orderRun{d: openTest(t, o), fs: o.FS}
		defer r.d.Pins().Pin()() // so that tables are removed and linked while transactions are open
		var group sync.WaitGroup
		for worker := range uint64(5) {
			rnd := rand.New(rand.NewPCG(seed, worker))
			group.Go(func() {
				for range steps {
					var err error
					if worker < 2 {
						err = r.change(t, rnd)
					} else {
						err = r.transact(rnd)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		require.NotZero(t, r.d.Untraced().Last())
		require.EqualValues(t, r.commits.Load(), r.requireOrder(t))
		t.Logf("%d transactions, %d tables linked", r.commits.Load(), r.linked.Load())
	})
}
