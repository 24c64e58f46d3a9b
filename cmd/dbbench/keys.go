package main

import (
	"math/rand/v2"
	"strconv"
)

// keySpace is the keys that a run works on: num of them, numbered from 0, from
// a file or made from their number. Its methods may be called from any
// goroutine.
type keySpace struct {
	num     int
	keySize int      // bytes of a made key
	list    *keyList // nil: keys are made
	missing *keyList // keys that are not stored; nil: made from stored ones
}

// appendKey appends key i, 0 <= i < num. A made key is i in decimal with
// leading zeros, as db_bench's.
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

// appendMissing appends a key that is not stored; i is any number from 0. Where
// no list of such keys was given it is a stored key and a full stop, which sorts
// between this key and the next.
func (k *keySpace) appendMissing(dst []byte, i int) []byte {
	if k.missing != nil {
		return append(dst, k.missing.key(i%k.missing.len())...)
	}
	return append(k.appendKey(dst, i%k.num), missingSuffix)
}

const missingSuffix = '.'

// numMissing is how many keys appendMissing knows.
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

// order returns the numbers that a workload in random order writes. Of a list
// each key comes once, so that all of it is stored; made keys are drawn with
// repetitions, as db_bench does it.
func (k *keySpace) order(rng *rand.Rand) func(i int) int {
	if k.list == nil {
		return func(int) int { return rng.IntN(k.num) }
	}
	perm := rng.Perm(k.num)
	return func(i int) int { return perm[i%k.num] }
}

// deriveMissing fills in k.missing where made-up neighbours of listed keys
// might be listed themselves.
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
