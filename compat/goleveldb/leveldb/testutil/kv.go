package testutil

import (
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/util"
)

var order = comparer.DefaultComparer

// KeyValueEntry is a pair.
type KeyValueEntry struct {
	key, value []byte
}

// KeyValue is a sorted list of pairs.
type KeyValue struct {
	entries []KeyValueEntry
	size    int
}

// Put appends a pair. It panics if its key is not after all others.
func (kv *KeyValue) Put(key, value []byte) {
	if n := len(kv.entries); n > 0 && order.Compare(kv.entries[n-1].key, key) >= 0 {
		panic(fmt.Sprintf("testutil: Put of %q after %q", key, kv.entries[n-1].key))
	}
	kv.insert(len(kv.entries), key, value)
}

func (kv *KeyValue) insert(i int, key, value []byte) {
	kv.entries = slices.Insert(kv.entries, i, KeyValueEntry{key, value})
	kv.size += len(key) + len(value)
}

// PutString is Put.
func (kv *KeyValue) PutString(key, value string) { kv.Put([]byte(key), []byte(value)) }

// PutU adds or replaces a pair, and reports whether the key is new.
func (kv *KeyValue) PutU(key, value []byte) bool {
	i, exist := kv.Get(key)
	if !exist {
		kv.insert(i, key, value)
		return true
	}
	kv.size += len(value) - len(kv.entries[i].value)
	kv.entries[i].value = value
	return false
}

// PutUString is PutU.
func (kv *KeyValue) PutUString(key, value string) bool { return kv.PutU([]byte(key), []byte(value)) }

// Delete removes a pair and returns its value.
func (kv *KeyValue) Delete(key []byte) (exist bool, value []byte) {
	i, exist := kv.Get(key)
	if exist {
		value = kv.entries[i].value
		kv.DeleteIndex(i)
	}
	return exist, value
}

// DeleteIndex removes the pair with an index, if there is one.
func (kv *KeyValue) DeleteIndex(i int) bool {
	if i >= len(kv.entries) {
		return false
	}
	kv.size -= len(kv.entries[i].key) + len(kv.entries[i].value)
	kv.entries = slices.Delete(kv.entries, i, i+1)
	return true
}

// Len returns the number of pairs.
func (kv KeyValue) Len() int { return len(kv.entries) }

// Size returns the bytes of all pairs.
func (kv *KeyValue) Size() int { return kv.size }

// KeyAt returns a key.
func (kv KeyValue) KeyAt(i int) []byte { return kv.entries[i].key }

// ValueAt returns a value.
func (kv KeyValue) ValueAt(i int) []byte { return kv.entries[i].value }

// Index returns a pair. It panics if there is none.
func (kv KeyValue) Index(i int) (key, value []byte) {
	if i < 0 || i >= len(kv.entries) {
		panic(fmt.Sprintf("testutil: index %d of %d pairs", i, len(kv.entries)))
	}
	return kv.entries[i].key, kv.entries[i].value
}

// IndexInexact returns a pair, and a key that is after the key before and not after this one.
func (kv KeyValue) IndexInexact(i int) (key_, key, value []byte) {
	key, value = kv.Index(i)
	before, _ := kv.IndexOrNil(i - 1)
	return BytesSeparator(before, key), key, value
}

// IndexOrNil returns a pair, or nil.
func (kv KeyValue) IndexOrNil(i int) (key, value []byte) {
	if i < 0 || i >= len(kv.entries) {
		return nil, nil
	}
	return kv.entries[i].key, kv.entries[i].value
}

// IndexString is Index.
func (kv KeyValue) IndexString(i int) (key, value string) {
	k, v := kv.Index(i)
	return string(k), string(v)
}

// Search returns the first index whose key is not before key, or Len.
func (kv KeyValue) Search(key []byte) int {
	return sort.Search(len(kv.entries), func(i int) bool { return order.Compare(kv.entries[i].key, key) >= 0 })
}

// SearchString is Search.
func (kv KeyValue) SearchString(key string) int { return kv.Search([]byte(key)) }

// Get is Search, and reports whether the key is there.
func (kv KeyValue) Get(key []byte) (i int, exist bool) {
	i = kv.Search(key)
	return i, i < len(kv.entries) && order.Compare(kv.entries[i].key, key) == 0
}

// GetString is Get.
func (kv KeyValue) GetString(key string) (i int, exist bool) { return kv.Get([]byte(key)) }

// Iterate calls fn for each pair.
func (kv KeyValue) Iterate(fn func(i int, key, value []byte)) {
	for i, e := range kv.entries {
		fn(i, e.key, e.value)
	}
}

// IterateString is Iterate.
func (kv KeyValue) IterateString(fn func(i int, key, value string)) {
	kv.Iterate(func(i int, key, value []byte) { fn(i, string(key), string(value)) })
}

// IterateShuffled calls fn for each pair in random order.
func (kv KeyValue) IterateShuffled(rnd *rand.Rand, fn func(i int, key, value []byte)) {
	ShuffledIndex(rnd, kv.Len(), 1, func(i int) { fn(i, kv.entries[i].key, kv.entries[i].value) })
}

// IterateShuffledString is IterateShuffled.
func (kv KeyValue) IterateShuffledString(rnd *rand.Rand, fn func(i int, key, value string)) {
	kv.IterateShuffled(rnd, func(i int, key, value []byte) { fn(i, string(key), string(value)) })
}

// IterateInexact calls fn with IndexInexact of each pair.
func (kv KeyValue) IterateInexact(fn func(i int, key_, key, value []byte)) {
	for i := range kv.entries {
		inexact, key, value := kv.IndexInexact(i)
		fn(i, inexact, key, value)
	}
}

// IterateInexactString is IterateInexact.
func (kv KeyValue) IterateInexactString(fn func(i int, key_, key, value string)) {
	kv.IterateInexact(func(i int, inexact, key, value []byte) { fn(i, string(inexact), string(key), string(value)) })
}

// Clone returns a list of its own with the same pairs.
func (kv KeyValue) Clone() KeyValue { return KeyValue{slices.Clone(kv.entries), kv.size} }

// Slice returns the pairs from start to limit, excluded. It panics if there are none such.
func (kv KeyValue) Slice(start, limit int) KeyValue {
	if start < 0 || limit > kv.Len() || limit < start {
		panic(fmt.Sprintf("testutil: slice %d to %d of %d pairs", start, limit, kv.Len()))
	}
	return KeyValue{slices.Clone(kv.entries[start:limit]), kv.size}
}

// SliceKey returns the pairs from start to limit, excluded; nil means no bound.
func (kv KeyValue) SliceKey(start, limit []byte) KeyValue {
	from, to := 0, kv.Len()
	if start != nil {
		from = kv.Search(start)
	}
	if limit != nil {
		to = kv.Search(limit)
	}
	return kv.Slice(from, to)
}

// SliceKeyString is SliceKey.
func (kv KeyValue) SliceKeyString(start, limit string) KeyValue {
	return kv.SliceKey([]byte(start), []byte(limit))
}

// SliceRange is SliceKey; a nil range has all pairs.
func (kv KeyValue) SliceRange(r *util.Range) KeyValue {
	if r == nil {
		return kv.Clone()
	}
	return kv.SliceKey(r.Start, r.Limit)
}

// Range returns the range of the pairs from start to limit, excluded.
func (kv KeyValue) Range(start, limit int) (r util.Range) {
	if n := kv.Len(); n > 0 && start == n {
		r.Start = BytesAfter(kv.KeyAt(n - 1))
	} else if n > 0 {
		r.Start = kv.KeyAt(start)
	}
	if limit < kv.Len() {
		r.Limit = kv.KeyAt(limit)
	}
	return r
}

func pairs(keysAndValues ...string) *KeyValue {
	kv := &KeyValue{}
	for i := 0; i < len(keysAndValues); i += 2 {
		kv.PutString(keysAndValues[i], keysAndValues[i+1])
	}
	return kv
}

// KeyValue_EmptyKey has one pair, with an empty key.
func KeyValue_EmptyKey() *KeyValue { return pairs("", "v") }

// KeyValue_EmptyValue has two pairs with empty values.
func KeyValue_EmptyValue() *KeyValue { return pairs("abc", "", "abcd", "") }

// KeyValue_OneKeyValue has one pair.
func KeyValue_OneKeyValue() *KeyValue { return pairs("abc", "v") }

// KeyValue_BigValue has a value of 200,000 bytes.
func KeyValue_BigValue() *KeyValue { return pairs("big1", strings.Repeat("1", 200_000)) }

// KeyValue_SpecialKey has a key after which there is none of the same length.
func KeyValue_SpecialKey() *KeyValue { return pairs("\xff\xff", "v3") }

// KeyValue_MultipleKeyValue has pairs whose keys share prefixes of many lengths.
func KeyValue_MultipleKeyValue() *KeyValue {
	kv := &KeyValue{}
	for i, key := range []string{"a", "aa", "aaa", "aaacccccccccc", "aaaccccccccccd", "aaaccccccccccf", "aaaccccccccccfg", "ab",
		"abc", "abcd", "accccccccccccccc", "b", "bb", "bc", "c", "c1", "czzzzzzzzzzzzzz", "fffffffffffffff", "g11", "g111",
		"g111\xff", "zz", "zzzzzzz", "zzzzzzzzzzzzzzzz"} {
		kv.PutString(key, fmt.Sprintf("v%d", i))
	}
	return kv
}

// keyDigits are the characters of generated keys, in order.
const keyDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// KeyValue_Generate returns n pairs with keys of minlen to maxlen bytes, whose last characters differ by
// at least incr, and values of vminlen to vmaxlen bytes. It panics if there are not that many keys.
func KeyValue_Generate(rnd *rand.Rand, n, incr, minlen, maxlen, vminlen, vmaxlen int) *KeyValue {
	if maxlen < minlen {
		panic("testutil: maxlen is less than minlen")
	}
	rnd = orNewRand(rnd)
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
		kv.Put(digits(last), value[:between(vminlen, vmaxlen)])
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
