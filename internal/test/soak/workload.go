package soak

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

const (
	workers   = 4
	fillBatch = 50 // keys of a batch that fills

	valueHeader   = 8 // the batch number
	longestFiller = 1000
	keyLength     = len("w0/000000")

	// meanLive is what a key takes on average: one in five is deleted.
	meanLive = (keyLength + valueHeader + longestFiller/2) * 4 / 5
)

// write is one write of a batch: the batch's own value for the key, or its deletion.
type write struct {
	key    int
	delete bool
}

// batchAt returns batch n, from 1, of a worker with that many keys. The first batches fill: they put each key once.
func batchAt(seed uint64, worker int, n uint64, keys int) (writes []write, sync bool) {
	if first := int(n-1) * fillBatch; n <= fillBatches(keys) {
		for key := first; key < min(first+fillBatch, keys); key++ {
			writes = append(writes, write{key: key})
		}
		return writes, false
	}
	rnd := rand.New(rand.NewPCG(seed+uint64(worker), n))
	count := 1
	if rnd.IntN(2) == 0 {
		count += rnd.IntN(8)
	}
	for range count {
		writes = append(writes, write{key: rnd.IntN(keys), delete: rnd.IntN(5) == 0})
	}
	return writes, rnd.IntN(64) == 0
}

// fillBatches is how many batches fill.
func fillBatches(keys int) uint64 { return uint64((keys + fillBatch - 1) / fillBatch) }

func keyOf(worker, key int) []byte { return fmt.Appendf(nil, "w%d/%06d", worker, key) }

// parseKey is keyOf's inverse.
func parseKey(k []byte) (worker, key int, err error) {
	if _, err := fmt.Sscanf(string(k), "w%d/%06d", &worker, &key); err != nil || string(keyOf(worker, key)) != string(k) {
		return 0, 0, fmt.Errorf("no worker writes key %q", k)
	}
	return worker, key, nil
}

// filler returns the source of a value's random part, and the part's length.
func filler(worker, key int, n uint64) (*rand.PCG, int) {
	source := rand.NewPCG(uint64(worker)<<32|uint64(key), n)
	return source, int(source.Uint64() % longestFiller)
}

// valueOf is what batch n of a worker puts under a key: n, and random bytes.
func valueOf(worker, key int, n uint64) []byte {
	source, length := filler(worker, key, n)
	value := binary.LittleEndian.AppendUint64(make([]byte, 0, valueHeader+length+8), n)
	for len(value) < valueHeader+length {
		value = binary.LittleEndian.AppendUint64(value, source.Uint64())
	}
	return value[:valueHeader+length]
}

// liveBytes is what key and value take.
func liveBytes(worker, key int, n uint64) int {
	_, length := filler(worker, key, n)
	return keyLength + valueHeader + length
}

// numberOf returns the number of the batch that wrote the value, and an error if
// no batch can have written it under this key.
func numberOf(worker, key int, value []byte) (uint64, error) {
	if len(value) < valueHeader {
		return 0, fmt.Errorf("key %q holds %d bytes; no value is that short", keyOf(worker, key), len(value))
	}
	n := binary.LittleEndian.Uint64(value)
	if n == 0 || string(value) != string(valueOf(worker, key, n)) {
		return 0, fmt.Errorf("key %q holds %d bytes that begin like a value of batch %d but are not", keyOf(worker, key), len(value), n)
	}
	return n, nil
}
