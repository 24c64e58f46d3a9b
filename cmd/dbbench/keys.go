package main

import (
	"math/rand/v2"
	"strconv"
)

// keySpace has the keys of a run: num keys, numbered from 0, from a file or generated from their
// numbers. It is safe for concurrent use.
type keySpace struct {
	num     int
	keySize int      // bytes of a generated key
	list    *keyList // nil: keys are generated
	missing *keyList // keys that are not stored; nil: generated from stored ones
}

// appendKey appends key i, 0 <= i < num. A generated key is i in decimal with leading zeros, as in db_bench.
func (k *keySpace) appendKey(dst []byte, i int) []byte {
	if k.list != nil {
		return append(dst, k.list.key(i)...)
	}
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], uint64(i), 10)
	for range k.keySize - len(number) {
		dst = append(dst, '0')
	}
	return append(dst, number...)
}

// appendMissing appends a key that is not stored, for any i from 0. Without a list of such keys, it
// is a stored key with a full stop, which sorts between this key and the next.
func (k *keySpace) appendMissing(dst []byte, i int) []byte {
	if k.missing != nil {
		return append(dst, k.missing.key(i%k.missing.len())...)
	}
	return append(k.appendKey(dst, i%k.num), missingSuffix)
}

const missingSuffix = '.'

// numMissing returns the number of different keys of appendMissing.
func (k *keySpace) numMissing() int {
	if k.missing != nil {
		return k.missing.len()
	}
	return k.num
}

// givenValue returns the value that the key file gives for key i.
func (k *keySpace) givenValue(i int) ([]byte, bool) {
	if k.list == nil {
		return nil, false
	}
	return k.list.value(i)
}

// order returns a function that returns the key number of the i-th write in random order. Each key of a list comes
// once, so all keys are stored. Generated keys are drawn with repetitions, as in db_bench.
func (k *keySpace) order(rng *rand.Rand) func(i int) int {
	if k.list == nil {
		return func(int) int { return rng.IntN(k.num) }
	}
	perm := rng.Perm(k.num)
	return func(i int) int { return perm[i%k.num] }
}

// deriveMissing fills in k.missing if the keys are from a list, since the list may contain a key with a full stop too.
func (k *keySpace) deriveMissing() {
	if k.list == nil || k.missing != nil {
		return
	}
	stored := make(map[string]struct{}, k.num)
	for i := range k.num {
		stored[string(k.list.key(i))] = struct{}{}
	}
	k.missing = &keyList{}
	var key []byte
	for i := range k.num {
		key = append(append(key[:0], k.list.key(i)...), missingSuffix)
		for {
			if _, taken := stored[string(key)]; !taken {
				break
			}
			key = append(key, missingSuffix)
		}
		k.missing.add(key)
	}
}
