package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/sievedb/sievedb/db"
)

// This is the code of the last recipe in docs/cookbook.md, line for line.

// copyBolt copies a bbolt file into a store: buckets become namespaces, nested ones too. All of it becomes visible at
// the end, or nothing.
func copyBolt(store *db.DB, file string) error {
	source, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer source.Close()
	loader, err := store.NewLoader()
	if err != nil {
		return err
	}
	defer loader.Close()
	sequences, err := store.Namespace("bbolt sequences")
	if err != nil {
		return err
	}
	c := boltCopy{loader: loader, sequences: sequences}
	err = source.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			ns, err := store.Namespace(string(name))
			if err != nil {
				return err
			}
			return c.bucket(ns, b)
		})
	})
	if err != nil {
		return err
	}
	if err := store.Apply(&c.counters, nil); err != nil {
		return err
	}
	return loader.Commit()
}

type boltCopy struct {
	loader    *db.Loader
	sequences *db.Namespace
	counters  db.Batch // what NextSequence has counted, by the prefix of the namespace
}

// bucket copies nested buckets first: their prefixes begin with the byte 00, and a loader needs ascending keys.
func (c *boltCopy) bucket(ns *db.Namespace, b *bolt.Bucket) error {
	nested := false
	err := b.ForEachBucket(func(name []byte) error {
		nested = true
		inner, err := ns.Namespace(string(name))
		if err != nil {
			return err
		}
		return c.bucket(inner, b.Bucket(name))
	})
	if err != nil {
		return err
	}
	if n := b.Sequence(); n > 0 {
		c.counters.Put(c.sequences.Key(ns.Key(nil)), binary.BigEndian.AppendUint64(nil, n))
	}
	return b.ForEach(func(key, value []byte) error {
		switch {
		case value == nil: // a nested bucket
			return nil
		case nested && bytes.HasPrefix(key, []byte{0}):
			return fmt.Errorf("bucket %q has nested buckets, and keys that begin with the byte 00: "+
				"copy these keys to a namespace of their own", ns.Name())
		default:
			return c.loader.Put(ns.Key(key), value)
		}
	})
}

// mustDo ends an example that failed.
func mustDo(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// fillBolt makes a bbolt file by a function.
func fillBolt(file string, fill func(tx *bolt.Tx) error) error {
	b, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(b.Update(fill), b.Close())
}

func Example_cookbookBbolt() {
	dir, err := os.MkdirTemp("", "cookbook")
	mustDo(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bolt.db")
	mustDo(fillBolt(file, func(tx *bolt.Tx) error {
		users, err := tx.CreateBucket([]byte("users"))
		mustDo(err)
		anna, err := users.CreateBucket([]byte("anna"))
		mustDo(err)
		_, err = users.NextSequence()
		return errors.Join(err, users.Put([]byte("count"), []byte("1")), anna.Put([]byte("mail"), []byte("anna@example.org")))
	}))

	store, err := db.Open(filepath.Join(dir, "db"), nil)
	mustDo(err)
	defer store.Close()
	mustDo(copyBolt(store, file))

	users, err := store.Namespace("users")
	mustDo(err)
	anna, err := users.Namespace("anna")
	mustDo(err)
	count, err := users.Get([]byte("count"))
	fmt.Printf("%s %v\n", count, err)
	mail, err := anna.Get([]byte("mail"))
	fmt.Printf("%s %v\n", mail, err)
	// Output:
	// 1 <nil>
	// anna@example.org <nil>
}

// Names and keys with any bytes, empty buckets, four levels: the copy has the same entries as the file.
func TestCookbookBboltCopiesEveryEntry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bolt.db")
	want := 0
	var fill func(b *bolt.Bucket, levels int) error
	fill = func(b *bolt.Bucket, levels int) error {
		for _, key := range []string{"\x01", "\x01\x00", "a", "a\x00", "b", "\xff", "\xff\xff"} {
			if err := b.Put([]byte(key), []byte{}); err != nil {
				return err
			}
			want++
		}
		for _, name := range []string{"\x00", "\x00\x01", "\x00\xff", "\x00\x00", "x", "x\x00y", "xy", "\xfe"} {
			inner, err := b.CreateBucket([]byte(name))
			if err != nil || levels == 0 {
				return err
			}
			if err := fill(inner, levels-1); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, fillBolt(file, func(tx *bolt.Tx) error {
		root, err := tx.CreateBucket([]byte("root"))
		require.NoError(t, err)
		other, err := tx.CreateBucket([]byte("numbers"))
		require.NoError(t, err)
		want++
		return errors.Join(fill(root, 2), other.Put(make([]byte, 8), []byte("zero")))
	}))
	store, err := db.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, copyBolt(store, file))

	got := 0
	entries, failed := store.All(nil)
	for range entries {
		got++
	}
	require.NoError(t, failed())
	require.Equal(t, want, got)
	ns, err := store.Namespace("root")
	require.NoError(t, err)
	for _, name := range []string{"x\x00y", "\x00\xff"} {
		ns, err = ns.Namespace(name)
		require.NoError(t, err)
		value, err := ns.Get([]byte("a\x00"))
		require.NoError(t, err)
		require.Empty(t, value)
	}
}

func TestCookbookBboltRefusesKeysThatWouldCollide(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bolt.db")
	require.NoError(t, fillBolt(file, func(tx *bolt.Tx) error {
		root, err := tx.CreateBucket([]byte("root"))
		require.NoError(t, err)
		_, err = root.CreateBucket([]byte("inner"))
		return errors.Join(err, root.Put([]byte("\x00inner\x00\x01key"), []byte("a key that looks like one of inner")))
	}))
	store, err := db.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer store.Close()
	require.ErrorContains(t, copyBolt(store, file), `bucket "root" has nested buckets`)
	it, err := store.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	require.False(t, it.First(), "something was copied")
}
