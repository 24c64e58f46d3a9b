package db_test

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// moves returns a function that moves an iterator with these bounds, "" for none, and closes it, unless the last word
// is "open". After "!" comes a move to no key, after "clone=" the bounds of a clone that moves from there on.
func moves(lower, upper, all string) func(*testing.T, *db.Transaction) {
	return func(t *testing.T, tx *db.Transaction) {
		it, err := tx.NewIterator(&db.IterOptions{LowerBound: boundOf(lower), UpperBound: boundOf(upper)})
		require.NoError(t, err)
		all, open := strings.CutSuffix(all, "open")
		for _, move := range strings.Fields(all) {
			if bounds, ok := strings.CutPrefix(move, "clone="); ok {
				lower, upper, _ := strings.Cut(bounds, "-")
				clone, err := it.Clone(&db.IterOptions{LowerBound: boundOf(lower), UpperBound: boundOf(upper), KeysOnly: true})
				require.NoError(t, err)
				require.NoError(t, it.Close())
				it = clone
				continue
			}
			move, none := strings.CutPrefix(move, "!")
			require.Equal(t, !none, moveBy(it, move), move)
		}
		if open {
			t.Cleanup(func() { _ = it.Close() })
			return
		}
		require.NoError(t, it.Close())
	}
}

func boundOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func moveBy(it *db.Iterator, move string) bool {
	move, key, _ := strings.Cut(move, "=")
	switch move {
	case "first":
		return it.First()
	case "last":
		return it.Last()
	case "next":
		return it.Next()
	case "prev":
		return it.Prev()
	case "ge":
		return it.SeekGE(boundOf(key))
	case "lt":
		return it.SeekLT(boundOf(key))
	case "bounds":
		lower, upper, _ := strings.Cut(key, "-")
		it.SetBounds(boundOf(lower), boundOf(upper))
		return true
	}
	panic(move)
}

// What a transaction reads, what is then committed by others, and whether it conflicts. The
// database has the keys a, c, e, g and i.
var conflictCases = []struct {
	name     string
	read     func(t *testing.T, tx *db.Transaction)
	others   string // keys that are put; in capitals: deleted
	conflict bool
}{
	{"a key that changes", func(t *testing.T, tx *db.Transaction) { get(t, tx, "c") }, "c", true},
	{"a key that is deleted", func(t *testing.T, tx *db.Transaction) { get(t, tx, "c") }, "C", true},
	{"another key", func(t *testing.T, tx *db.Transaction) { get(t, tx, "c") }, "abde", false},
	{"an absent key that is put", func(t *testing.T, tx *db.Transaction) { get(t, tx, "d") }, "d", true},
	{"Has", func(t *testing.T, tx *db.Transaction) { require.NoError(t, second(tx.Has([]byte("c")))) }, "c", true},
	{"GetTo", func(t *testing.T, tx *db.Transaction) { require.NoError(t, second(tx.GetTo(nil, []byte("c")))) }, "c", true},
	{"GetWith", func(t *testing.T, tx *db.Transaction) {
		require.NoError(t, second(tx.GetWith(nil, []byte("c"), &db.GetOptions{NoFillCache: true})))
	}, "c", true},
	{"MultiGet", func(t *testing.T, tx *db.Transaction) {
		require.NoError(t, second(tx.MultiGet([][]byte{[]byte("a"), []byte("d")})))
	}, "d", true},
	{"nothing", func(*testing.T, *db.Transaction) {}, "abcdefghi", false},
	{"its own writes", func(t *testing.T, tx *db.Transaction) {
		require.NoError(t, tx.Put([]byte("c"), []byte("own")))
		get(t, tx, "c")
	}, "c", false},
	{"a phantom in a range", moves("c", "f", "first next !next"), "d", true},
	{"a phantom at the end of a range", moves("c", "f", "first next !next"), "e", true},
	{"keys outside of a range", moves("c", "f", "first next !next"), "bfgA", false},
	{"an empty range that is filled", moves("d", "e", "!first"), "d", true},
	{"keys after the one where it stopped", moves("", "", "first next"), "dghz", false},
	{"a key before the one where it stopped", moves("", "", "first next"), "b", true},
	{"backward, a phantom", moves("", "", "last prev"), "h", true},
	{"backward, a key after the last", moves("", "", "last"), "z", true},
	{"backward, before where it stopped", moves("", "", "last prev"), "af", false},
	{"SeekLT does not read its key", moves("", "", "lt=e"), "be", false},
	{"SeekLT reads up to its key", moves("", "", "lt=e"), "d", true},
	{"SeekLT of the empty key reads nothing", moves("", "", "!lt="), "abc", false},
	{"SeekGE reads from its key", moves("", "", "ge=d"), "d", true},
	{"SeekGE to the end", moves("", "", "!ge=k"), "z", true},
	{"a turn back reads both ways", moves("", "", "ge=e next prev prev"), "d", true},
	{"a turn forward reads both ways", moves("", "", "lt=e next next"), "f", true},
	{"between two seeks", moves("", "", "ge=a ge=g"), "bcdef", false},
	{"an iterator that was not moved", moves("", "", ""), "abc", false},
	{"an iterator that is still open", moves("", "", "first next open"), "b", true},
	{"before new bounds", moves("", "d", "first next bounds=g-"), "b", true},
	{"outside of new bounds, which are not walked", moves("", "d", "first next bounds=g-"), "defgz", false},
	{"to the end of new bounds", moves("", "b", "bounds=d-h next next !next"), "h", false},
	{"a phantom within new bounds", moves("", "b", "bounds=d-h last prev !prev"), "d", true},
	{"a phantom at the end of new bounds", moves("", "b", "bounds=d-h next next !next"), "g", true},
	{"before new bounds, of which all is walked backward", moves("", "b", "bounds=d-h last prev !prev"), "ac", false},
	{"by a clone", moves("", "b", "clone=d- ge=d next"), "f", true},
	{"by a clone that is still open", moves("d", "", "clone=d- last open"), "k", true},
	{"outside of a clone's bounds", moves("", "", "clone=d-f next !next"), "cfz", false},
	{"All, to its end", func(t *testing.T, tx *db.Transaction) { require.Equal(t, 5, rounds(t, tx.All, 9)) }, "z", true},
	{"All, where it was left", func(t *testing.T, tx *db.Transaction) { require.Equal(t, 2, rounds(t, tx.All, 2)) }, "b", true},
	{"All, after where it was left", func(t *testing.T, tx *db.Transaction) {
		require.Equal(t, 2, rounds(t, tx.All, 2))
	}, "defgz", false},
	{"Backward, before where it was left", func(t *testing.T, tx *db.Transaction) {
		require.Equal(t, 2, rounds(t, tx.Backward, 2))
	}, "abef", false},
	{"a range over a deletion of its own", func(t *testing.T, tx *db.Transaction) {
		require.NoError(t, tx.Delete([]byte("c")))
		moves("", "", "ge=b")(t, tx)
	}, "d", true},
}

// rounds returns how many rounds a loop over the database goes, at most most.
func rounds(t *testing.T, all func(*db.IterOptions) (iter.Seq2[[]byte, []byte], func() error), most int) (n int) {
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

func get(t *testing.T, tx *db.Transaction, key string) {
	t.Helper()
	if _, err := tx.Get([]byte(key)); err != db.ErrNotFound {
		require.NoError(t, err)
	}
}

// How the commits of others come, and where they are when the transaction commits.
var conflictWays = map[string]func(t *testing.T, d *db.DB, b *db.Batch){
	"in the memtable": func(t *testing.T, d *db.DB, b *db.Batch) { require.NoError(t, d.Apply(b, db.NoSync)) },
	"in a table": func(t *testing.T, d *db.DB, b *db.Batch) {
		require.NoError(t, d.Apply(b, db.NoSync))
		require.NoError(t, d.Flush())
	},
	"compacted": func(t *testing.T, d *db.DB, b *db.Batch) {
		require.NoError(t, d.Apply(b, db.NoSync))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	},
	"loaded": func(t *testing.T, d *db.DB, b *db.Batch) {
		l, err := d.NewLoader()
		require.NoError(t, err)
		entries := map[string]db.BatchEntry{}
		for _, e := range b.All() {
			entries[string(e.Key)] = e
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if e := entries[key]; e.Kind == db.EntryDelete {
				require.NoError(t, l.Delete(e.Key))
			} else {
				require.NoError(t, l.Put(e.Key, e.Value))
			}
		}
		require.NoError(t, l.Commit())
	},
	"by another transaction": func(t *testing.T, d *db.DB, b *db.Batch) {
		require.NoError(t, d.Update(func(tx *db.Transaction) error {
			for _, e := range b.All() {
				require.NoError(t, storetest.PutOrDelete(tx, e))
			}
			return nil
		}))
	},
}

//make:portable
//make:wasm
func TestConflicts(t *testing.T) {
	for how, commit := range conflictWays {
		for _, c := range conflictCases {
			t.Run(how+"/"+c.name, func(t *testing.T) {
				d := openTest(t, testOptions(vfs.NewMem()))
				for _, key := range "acegi" {
					require.NoError(t, d.Put([]byte(string(key)), []byte("first"), db.NoSync))
				}
				require.NoError(t, d.Flush())
				tx := d.NewTransaction(nil)
				c.read(t, tx)
				require.NoError(t, tx.Put([]byte("written"), []byte("v")))
				var b db.Batch
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
					require.Equal(t, db.ErrConflict, err)
					require.Equal(t, db.ErrNotFound, got)
				} else {
					require.NoError(t, err)
					require.NoError(t, got)
				}
				require.ErrorIs(t, tx.Commit(), db.ErrClosed)
				require.Equal(t, db.ErrClosed, tx.Close())
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
	require.NoError(t, d.Put([]byte("a"), []byte("other"), db.NoSync))
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
	require.NoError(t, d.Put([]byte("a"), make([]byte, largeWrite), db.NoSync))
	require.Equal(t, db.ErrConflict, tx.Commit())
}
