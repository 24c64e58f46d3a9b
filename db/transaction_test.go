package db

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// A transaction shows the database at its start with its own writes on top, by every way to read,
// whatever is written, flushed and compacted meanwhile.
//
//make:portable
//make:wasm
func TestATransactionAgreesWithAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	d := openTest(t, testOptions(vfs.NewMem()))
	outside := map[string]string{}
	write := func(n int) {
		for i := range n {
			key, value := fmt.Sprintf("k%03d", rnd.IntN(300)), fmt.Sprintf("outside %d %d", i, rnd.IntN(1000))
			if rnd.IntN(3) == 0 {
				require.NoError(t, d.Delete([]byte(key), NoSync))
				delete(outside, key)
			} else {
				require.NoError(t, d.Put([]byte(key), []byte(value), NoSync))
				outside[key] = value
			}
		}
	}
	for round := range 60 {
		write(rnd.IntN(100))
		tx, model := d.NewTransaction(nil), maps.Clone(outside)
		for i := range rnd.IntN(60) {
			key, value := fmt.Sprintf("k%03d", rnd.IntN(300)), fmt.Sprintf("own %d %d", round, i)
			if rnd.IntN(3) == 0 {
				require.NoError(t, tx.Delete([]byte(key)))
				delete(model, key)
			} else {
				require.NoError(t, tx.Put([]byte(key), []byte(value)))
				model[key] = value
			}
			if i%8 == 0 {
				requireShows(t, rnd, tx, model)
			}
		}
		write(rnd.IntN(30))
		switch rnd.IntN(6) {
		case 0:
			require.NoError(t, d.Flush())
		case 1:
			settle(t, d)
		}
		requireShows(t, rnd, tx, model)
		require.NoError(t, tx.Close())
	}
}

// requireShows compares what a transaction shows with a model, and some of it in detail.
func requireShows(t *testing.T, rnd *rand.Rand, tx *Transaction, model map[string]string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(model))
	var asked [][]byte
	for range 10 {
		key := fmt.Appendf(nil, "k%03d", rnd.IntN(300))
		want, has := model[string(key)]
		asked = append(asked, key)
		value, err := tx.Get(key)
		to, errTo := tx.GetTo([]byte("before"), key)
		got, errHas := tx.Has(key)
		require.NoError(t, errHas)
		require.Equal(t, has, got)
		if !has {
			require.Equal(t, ErrNotFound, err)
			require.Equal(t, ErrNotFound, errTo)
			require.Equal(t, "before", string(to))
			continue
		}
		require.NoError(t, err)
		require.NoError(t, errTo)
		require.Equal(t, want, string(value))
		require.Equal(t, "before"+want, string(to))
	}
	values, err := tx.MultiGet(asked)
	require.NoError(t, err)
	for i, value := range values {
		want, has := model[string(asked[i])]
		require.Equal(t, has, value != nil)
		require.Equal(t, want, string(value))
	}
	it, err := tx.NewIterator(nil)
	require.NoError(t, err)
	var seen []string
	for key, value := range it.All() {
		seen = append(seen, string(key))
		require.Equal(t, model[string(key)], string(value))
	}
	require.Equal(t, keys, seen)
	slices.Reverse(seen)
	for ok := it.Last(); ok; ok = it.Prev() {
		require.Equal(t, seen[0], string(it.Key()))
		require.Equal(t, model[seen[0]], string(it.Value()))
		seen = seen[1:]
	}
	require.Empty(t, seen)
	for range 10 {
		requireStep(t, rnd, it, keys)
	}
	require.NoError(t, it.Close())
}

// requireStep seeks, turns back and forth, and compares the positions.
func requireStep(t *testing.T, rnd *rand.Rand, it *Iterator, keys []string) {
	t.Helper()
	target := fmt.Sprintf("k%03d", rnd.IntN(300))
	at, _ := slices.BinarySearch(keys, target)
	ok := it.SeekGE([]byte(target))
	if rnd.IntN(2) == 0 {
		at--
		ok = it.SeekLT([]byte(target))
	}
	for range 4 {
		require.Equal(t, at >= 0 && at < len(keys), ok)
		if !ok {
			return
		}
		require.Equal(t, keys[at], string(it.Key()))
		if rnd.IntN(2) == 0 {
			at++
			ok = it.Next()
		} else {
			at--
			ok = it.Prev()
		}
	}
}

// readBy moves an iterator of tx with f and closes it.
func readBy(t *testing.T, tx *Transaction, o *IterOptions, f func(it *Iterator)) {
	t.Helper()
	it, err := tx.NewIterator(o)
	require.NoError(t, err)
	f(it)
	require.NoError(t, it.Close())
}

// What a transaction reads, what is then committed by others, and whether it conflicts. The
// database has the keys a, c, e, g and i.
var conflictCases = []struct {
	name     string
	read     func(t *testing.T, tx *Transaction)
	others   string // keys that are put; in capitals: deleted
	conflict bool
}{
	{"a key that changes", func(t *testing.T, tx *Transaction) { get(t, tx, "c") }, "c", true},
	{"a key that is deleted", func(t *testing.T, tx *Transaction) { get(t, tx, "c") }, "C", true},
	{"another key", func(t *testing.T, tx *Transaction) { get(t, tx, "c") }, "abde", false},
	{"an absent key that is put", func(t *testing.T, tx *Transaction) { get(t, tx, "d") }, "d", true},
	{"Has", func(t *testing.T, tx *Transaction) {
		_, err := tx.Has([]byte("c"))
		require.NoError(t, err)
	}, "c", true},
	{"GetTo", func(t *testing.T, tx *Transaction) {
		_, err := tx.GetTo(nil, []byte("c"))
		require.NoError(t, err)
	}, "c", true},
	{"MultiGet", func(t *testing.T, tx *Transaction) {
		_, err := tx.MultiGet([][]byte{[]byte("a"), []byte("d")})
		require.NoError(t, err)
	}, "d", true},
	{"nothing", func(*testing.T, *Transaction) {}, "abcdefghi", false},
	{"its own writes", func(t *testing.T, tx *Transaction) {
		require.NoError(t, tx.Put([]byte("c"), []byte("own")))
		get(t, tx, "c")
	}, "c", false},
	{"a phantom in a range", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{LowerBound: []byte("c"), UpperBound: []byte("f")}, func(it *Iterator) {
			require.True(t, it.First() && it.Next() && !it.Next())
		})
	}, "d", true},
	{"a phantom at the end of a range", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{LowerBound: []byte("c"), UpperBound: []byte("f")}, func(it *Iterator) {
			require.True(t, it.First() && it.Next() && !it.Next())
		})
	}, "e", true},
	{"keys outside of a range", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{LowerBound: []byte("c"), UpperBound: []byte("f")}, func(it *Iterator) {
			require.True(t, it.First() && it.Next() && !it.Next())
		})
	}, "bfgA", false},
	{"an empty range that is filled", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, PrefixBounds([]byte("d")), func(it *Iterator) { require.False(t, it.First()) })
	}, "d", true},
	{"keys after the one where it stopped", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.First() && it.Next()) })
	}, "dghz", false},
	{"a key before the one where it stopped", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.First() && it.Next()) })
	}, "b", true},
	{"backward, a phantom", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.Last() && it.Prev()) })
	}, "h", true},
	{"backward, a key after the last", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.Last()) })
	}, "z", true},
	{"backward, before where it stopped", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.Last() && it.Prev()) })
	}, "af", false},
	{"SeekLT does not read its key", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekLT([]byte("e"))) })
	}, "be", false},
	{"SeekLT reads up to its key", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekLT([]byte("e"))) })
	}, "d", true},
	{"SeekGE reads from its key", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekGE([]byte("d"))) })
	}, "d", true},
	{"SeekGE to the end", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.False(t, it.SeekGE([]byte("k"))) })
	}, "z", true},
	{"a turn back reads both ways", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekGE([]byte("e")) && it.Next() && it.Prev() && it.Prev()) })
	}, "d", true},
	{"a turn forward reads both ways", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekLT([]byte("e")) && it.Next() && it.Next()) })
	}, "f", true},
	{"between two seeks", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekGE([]byte("a")) && it.SeekGE([]byte("g"))) })
	}, "bcdef", false},
	{"an iterator that was not moved", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(*Iterator) {})
	}, "abc", false},
	{"an iterator that is still open", func(t *testing.T, tx *Transaction) {
		it, err := tx.NewIterator(nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = it.Close() })
		require.True(t, it.First() && it.Next())
	}, "b", true},
	{"before new bounds", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("d")}, func(it *Iterator) {
			require.True(t, it.First() && it.Next())
			it.SetBounds([]byte("g"), nil)
		})
	}, "b", true},
	{"outside of new bounds, which are not walked", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("d")}, func(it *Iterator) {
			require.True(t, it.First() && it.Next())
			it.SetBounds([]byte("g"), nil)
		})
	}, "defgz", false},
	{"to the end of new bounds", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("b")}, func(it *Iterator) {
			it.SetBounds([]byte("d"), []byte("h"))
			require.Equal(t, 2, steps(it.Next))
		})
	}, "h", false},
	{"a phantom within new bounds", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("b")}, func(it *Iterator) {
			it.SetBounds([]byte("d"), []byte("h"))
			require.True(t, it.Last() && it.Prev() && !it.Prev())
		})
	}, "d", true},
	{"a phantom at the end of new bounds", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("b")}, func(it *Iterator) {
			it.SetBounds([]byte("d"), []byte("h"))
			require.Equal(t, 2, steps(it.Next))
		})
	}, "g", true},
	{"before new bounds, of which all is walked backward", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("b")}, func(it *Iterator) {
			it.SetBounds([]byte("d"), []byte("h"))
			require.True(t, it.Last() && it.Prev() && !it.Prev())
		})
	}, "ac", false},
	{"by a clone", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{UpperBound: []byte("b")}, func(it *Iterator) {
			clone, err := it.Clone(&IterOptions{LowerBound: []byte("d"), KeysOnly: true})
			require.NoError(t, err)
			require.True(t, clone.SeekGE([]byte("d")) && clone.Next())
			require.NoError(t, clone.Close())
		})
	}, "f", true},
	{"by a clone that is still open", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, &IterOptions{LowerBound: []byte("d")}, func(it *Iterator) {
			clone, err := it.Clone(nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = clone.Close() })
			require.True(t, clone.Last())
		})
	}, "k", true},
	{"outside of a clone's bounds", func(t *testing.T, tx *Transaction) {
		readBy(t, tx, nil, func(it *Iterator) {
			clone, err := it.Clone(&IterOptions{LowerBound: []byte("d"), UpperBound: []byte("f")})
			require.NoError(t, err)
			require.True(t, clone.Next() && !clone.Next())
			require.NoError(t, clone.Close())
		})
	}, "cfz", false},
	{"All, to its end", func(t *testing.T, tx *Transaction) {
		require.Equal(t, 5, rounds(t, tx.All, 9))
	}, "z", true},
	{"All, where it was left", func(t *testing.T, tx *Transaction) {
		require.Equal(t, 2, rounds(t, tx.All, 2))
	}, "b", true},
	{"All, after where it was left", func(t *testing.T, tx *Transaction) {
		require.Equal(t, 2, rounds(t, tx.All, 2))
	}, "defgz", false},
	{"Backward, before where it was left", func(t *testing.T, tx *Transaction) {
		require.Equal(t, 2, rounds(t, tx.Backward, 2))
	}, "abef", false},
	{"GetWith", func(t *testing.T, tx *Transaction) {
		_, err := tx.GetWith(nil, []byte("c"), &GetOptions{NoFillCache: true})
		require.NoError(t, err)
	}, "c", true},
	{"a range over a deletion of its own", func(t *testing.T, tx *Transaction) {
		require.NoError(t, tx.Delete([]byte("c")))
		readBy(t, tx, nil, func(it *Iterator) { require.True(t, it.SeekGE([]byte("b"))) })
	}, "d", true},
}

// steps returns how many steps succeed until one does not.
func steps(step func() bool) (n int) {
	for step() {
		n++
	}
	return n
}

// rounds returns how many rounds a loop over the database goes, at most most.
func rounds(t *testing.T, all func(*IterOptions) (iter.Seq2[[]byte, []byte], func() error), most int) (n int) {
	t.Helper()
	entries, failed := all(nil)
	for range entries {
		if n++; n == most {
			break
		}
	}
	require.NoError(t, failed())
	return n
}

func get(t *testing.T, tx *Transaction, key string) {
	t.Helper()
	if _, err := tx.Get([]byte(key)); err != ErrNotFound {
		require.NoError(t, err)
	}
}

// How the commits of others come, and where they are when the transaction commits.
var conflictWays = map[string]func(t *testing.T, d *DB, b *Batch){
	"in the memtable": func(t *testing.T, d *DB, b *Batch) { require.NoError(t, d.Apply(b, NoSync)) },
	"in a table": func(t *testing.T, d *DB, b *Batch) {
		require.NoError(t, d.Apply(b, NoSync))
		require.NoError(t, d.Flush())
	},
	"compacted": func(t *testing.T, d *DB, b *Batch) {
		require.NoError(t, d.Apply(b, NoSync))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	},
	"loaded": func(t *testing.T, d *DB, b *Batch) {
		l, err := d.NewLoader()
		require.NoError(t, err)
		entries := map[string]BatchEntry{}
		for _, e := range b.All() {
			entries[string(e.Key)] = e
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if e := entries[key]; e.Kind == EntryDelete {
				require.NoError(t, l.Delete(e.Key))
			} else {
				require.NoError(t, l.Put(e.Key, e.Value))
			}
		}
		require.NoError(t, l.Commit())
	},
	"by another transaction": func(t *testing.T, d *DB, b *Batch) {
		require.NoError(t, d.Update(func(tx *Transaction) error {
			for _, e := range b.All() {
				require.NoError(t, putOrDelete(tx, e))
			}
			return nil
		}))
	},
}

func TestConflicts(t *testing.T) {
	for how, commit := range conflictWays {
		for _, c := range conflictCases {
			t.Run(how+"/"+c.name, func(t *testing.T) {
				d := openTest(t, testOptions(vfs.NewMem()))
				for _, key := range "acegi" {
					require.NoError(t, d.Put([]byte(string(key)), []byte("first"), NoSync))
				}
				require.NoError(t, d.Flush())
				tx := d.NewTransaction(nil)
				c.read(t, tx)
				require.NoError(t, tx.Put([]byte("written"), []byte("v")))
				var b Batch
				for _, key := range []byte(c.others) {
					if lower := bytes.ToLower([]byte{key}); lower[0] != key {
						b.Delete(lower)
					} else {
						b.Put([]byte{key}, []byte("second"))
					}
				}
				commit(t, d, &b)
				err := tx.Commit()
				_, got := d.Get([]byte("written"))
				if c.conflict {
					require.Equal(t, ErrConflict, err)
					require.Equal(t, ErrNotFound, got)
				} else {
					require.NoError(t, err)
					require.NoError(t, got)
				}
				require.ErrorIs(t, tx.Commit(), ErrClosed)
				require.Equal(t, ErrClosed, tx.Close())
			})
		}
	}
}

// A transaction that only reads does not conflict, and neither does one that only writes.
func TestReadsAloneAndWritesAloneNeverConflict(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	reader, writer := d.NewTransaction(nil), d.NewTransaction(nil)
	get(t, reader, "a")
	require.NoError(t, writer.Put([]byte("a"), []byte("writer")))
	require.NoError(t, d.Put([]byte("a"), []byte("other"), NoSync))
	require.NoError(t, reader.Commit())
	require.NoError(t, writer.Commit())
	requireValue(t, d, []byte("a"), []byte("writer"))
}

// The commit of a large value goes past the queue's batches, and is found all the same.
func TestALargeWriteConflicts(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	tx := d.NewTransaction(nil)
	get(t, tx, "a")
	require.NoError(t, tx.Put([]byte("b"), nil))
	require.NoError(t, d.Put([]byte("a"), make([]byte, largeWrite), NoSync))
	require.Equal(t, ErrConflict, tx.Commit())
}

// SeekLT of nil is before all keys, and reads none.
func TestSeekLTOfNilReadsNothing(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "a", "1")
	tx := d.NewTransaction(nil)
	defer tx.Close()
	it, err := tx.NewIterator(nil)
	require.NoError(t, err)
	require.False(t, it.SeekLT(nil))
	require.NoError(t, it.Close())
	require.NoError(t, tx.Put([]byte("x"), nil))
	putAll(t, d, "a", "2")
	require.NoError(t, tx.Commit())
}
