// Package testutil has the sorted pairs of goleveldb's tests, as far as tests of other programs use them: those of
// 0xsoniclabs/substate and aida give a [KeyValue] to iterator.NewArrayIterator. What else goleveldb's package has is for
// goleveldb's own tests, and needs ginkgo and gomega: it is not here.
package testutil

import (
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/syndtr/goleveldb/leveldb/comparer"
)

var order = comparer.DefaultComparer

// KeyValueEntry is a pair.
type KeyValueEntry struct {
	key, value []byte
}

// KeyValue is a sorted list of pairs.
type KeyValue struct {
	entries []KeyValueEntry
}

// PutU adds or replaces a pair, and reports whether the key is new.
func (kv *KeyValue) PutU(key, value []byte) bool {
	i := kv.Search(key)
	if i < len(kv.entries) && order.Compare(kv.entries[i].key, key) == 0 {
		kv.entries[i].value = value
		return false
	}
	kv.entries = slices.Insert(kv.entries, i, KeyValueEntry{key, value})
	return true
}

// Len returns the number of pairs.
func (kv KeyValue) Len() int { return len(kv.entries) }

// Index returns a pair. It panics if there is none.
func (kv KeyValue) Index(i int) (key, value []byte) {
	if i < 0 || i >= len(kv.entries) {
		panic(fmt.Sprintf("testutil: index %d of %d pairs", i, len(kv.entries)))
	}
	return kv.entries[i].key, kv.entries[i].value
}

// Search returns the first index whose key is not before key, or Len.
func (kv KeyValue) Search(key []byte) int {
	return sort.Search(len(kv.entries), func(i int) bool { return order.Compare(kv.entries[i].key, key) >= 0 })
}

// keyDigits are the characters of generated keys, in order.
const keyDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// KeyValue_Generate returns n pairs with keys of minlen to maxlen bytes, whose last characters differ by
// at least incr, and values of vminlen to vmaxlen bytes. It panics if there are not that many keys.
func KeyValue_Generate(rnd *rand.Rand, n, incr, minlen, maxlen, vminlen, vmaxlen int) *KeyValue {
	if maxlen < minlen {
		panic("testutil: maxlen is less than minlen")
	}
	if rnd == nil {
		rnd = rand.New(rand.NewSource(time.Now().UnixNano()))
	}
	between := func(low, high int) int {
		if low == high {
			return low
		}
		return low + rnd.Intn(high-low)
	}
	kv := &KeyValue{}
	var last []byte
	for i := range n {
		last = nextKey(last, between(minlen, maxlen), maxlen, incr)
		value := fmt.Appendf(nil, "v%d%s", i, strings.Repeat("x", vmaxlen))
		kv.PutU(digits(last), value[:between(vminlen, vmaxlen)])
	}
	return kv
}

func digits(key []byte) []byte {
	text := make([]byte, len(key))
	for i, d := range key {
		text[i] = keyDigits[d]
	}
	return text
}

// nextKey returns a key of digits after last, with the given length if possible.
func nextKey(last []byte, length, maxlen, incr int) []byte {
	for ; length <= maxlen; length++ {
		if length > len(last) {
			return append(slices.Clone(last), make([]byte, length-len(last))...)
		}
		for i := length - 1; i >= 0; i-- {
			if int(last[i])+incr < len(keyDigits) {
				next := append(slices.Clone(last[:i]), last[i]+byte(incr))
				return append(next, make([]byte, length-i-1)...)
			}
		}
	}
	panic("testutil: there are no more keys; increase maxlen")
}
