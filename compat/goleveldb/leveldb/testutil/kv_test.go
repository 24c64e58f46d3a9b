package testutil

import (
	"testing"

	"github.com/syndtr/goleveldb/leveldb/iterator"
)

func wantEqual[T comparable](t *testing.T, want, got T) {
	t.Helper()
	if want != got {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// Tests of 0xsoniclabs/substate walk a list that they filled in any order.
func TestAListIsSortedAndAnIteratorsArray(t *testing.T) {
	kv := &KeyValue{}
	for _, key := range []string{"c", "a", "b"} {
		wantEqual(t, true, kv.PutUString(key, "old"))
	}
	wantEqual(t, false, kv.PutUString("b", "newer"))
	wantEqual(t, 3, kv.Len())
	wantEqual(t, 3+3+5+3, kv.Size())
	it := iterator.NewArrayIterator(kv)
	defer it.Release()
	var walked string
	for it.Next() {
		walked += string(it.Key()) + "=" + string(it.Value()) + " "
	}
	wantEqual(t, "a=old b=newer c=old ", walked)
	exist, value := kv.Delete([]byte("a"))
	wantEqual(t, true, exist)
	wantEqual(t, "old", string(value))
	i, exist := kv.GetString("c")
	wantEqual(t, 1, i)
	wantEqual(t, true, exist)
	key, _ := kv.SliceKeyString("b", "c").IndexString(0)
	wantEqual(t, "b", key)
}

func TestGeneratedKeysAscendWithinTheirLengths(t *testing.T) {
	kv := KeyValue_Generate(nil, 70, 1, 1, 5, 3, 3)
	wantEqual(t, 70, kv.Len())
	kv.IterateInexact(func(i int, between, key, value []byte) {
		wantEqual(t, true, len(key) >= 1 && len(key) <= 5)
		wantEqual(t, 3, len(value))
		wantEqual(t, i, kv.Search(between))
	})
	seen := 0
	kv.IterateShuffled(nil, func(i int, key, _ []byte) {
		wantEqual(t, i, kv.Search(key))
		seen++
	})
	wantEqual(t, kv.Len(), seen)
	r := kv.Range(10, 20)
	slice := kv.SliceRange(&r)
	wantEqual(t, 10, slice.Len())
}
