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
		wantEqual(t, true, kv.PutU([]byte(key), []byte("old")))
	}
	wantEqual(t, false, kv.PutU([]byte("b"), []byte("newer")))
	wantEqual(t, 3, kv.Len())
	it := iterator.NewArrayIterator(kv)
	defer it.Release()
	var walked string
	for it.Next() {
		walked += string(it.Key()) + "=" + string(it.Value()) + " "
	}
	wantEqual(t, "a=old b=newer c=old ", walked)
}

func TestGeneratedKeysAscendWithinTheirLengths(t *testing.T) {
	kv := KeyValue_Generate(nil, 70, 1, 1, 5, 3, 3)
	wantEqual(t, 70, kv.Len())
	for i := range kv.Len() {
		key, value := kv.Index(i)
		wantEqual(t, true, len(key) >= 1 && len(key) <= 5)
		wantEqual(t, 3, len(value))
		wantEqual(t, i, kv.Search(key))
	}
}
