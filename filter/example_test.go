package filter_test

import (
	"fmt"

	"github.com/sievedb/sievedb/filter"
)

func ExampleBloomPolicy() {
	policy := filter.NewBloomPolicy(10)
	made := policy.CreateFilter(nil, [][]byte{[]byte("hello"), []byte("world")})
	fmt.Printf("% x\n", made)
	for _, key := range []string{"hello", "world", "sieve"} {
		fmt.Println(key, policy.KeyMayMatch([]byte(key), made))
	}
	// Output:
	// 11 40 00 41 44 10 40 10 06
	// hello true
	// world true
	// sieve false
}

// Keys may be added one at a time from a buffer that is reused.
func ExampleGeneratorPolicy() {
	var policy filter.Policy = filter.NewBloomPolicy(10)
	maker, ok := policy.(filter.GeneratorPolicy)
	if !ok {
		return // for such a policy, collect the keys and call CreateFilter
	}
	generator := maker.NewGenerator()
	key := make([]byte, 0, 16)
	for i := range 1000 {
		key = fmt.Appendf(key[:0], "user%d", i)
		generator.Add(key)
	}
	made := generator.AppendFilter(nil)
	fmt.Println(len(made), "bytes,", generator.Len(), "keys left")
	fmt.Println(policy.KeyMayMatch([]byte("user42"), made))
	// Output:
	// 1251 bytes, 0 keys left
	// true
}

// One hash is enough for the filters of many tables.
func ExampleHashPolicy() {
	policy := filter.NewBloomPolicy(10)
	var tables []filter.Probe
	for _, key := range []string{"amber", "birch", "cedar"} {
		tables = append(tables, policy.NewProbe(policy.CreateFilter(nil, [][]byte{[]byte(key)})))
	}
	hash := policy.KeyHash([]byte("birch"))
	for i, table := range tables {
		fmt.Println(i, table.HashMayMatch(hash))
	}
	// Output:
	// 0 false
	// 1 true
	// 2 false
}

func ExamplePredictedRate() {
	for _, bits := range []int{4, 10, 16} {
		fmt.Printf("%2d bits, %2d hashes: %.3f %%\n", bits, filter.BloomHashes(bits), 100*filter.PredictedRate(1_000_000, bits))
	}
	// Output:
	//  4 bits,  2 hashes: 15.491 %
	// 10 bits,  6 hashes: 1.306 %
	// 16 bits, 11 hashes: 0.097 %
}

// The number of bits for a given rate also depends on the hash: LevelDB's has only 32 bits.
func ExampleBloomPolicy_ForRate() {
	for _, keys := range []uint64{20_000, 100_000_000} {
		for _, layout := range []filter.BloomPolicy{filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(10)} {
			policy, err := layout.ForRate(keys, 0.001)
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println(keys, "keys,", policy.Name(), "with", policy.BitsPerKey(), "bits per key")
		}
	}
	// Output:
	// 20000 keys, leveldb.BuiltinBloomFilter2 with 15 bits per key
	// 20000 keys, sievedb.CacheLineBloom with 16 bits per key
	// filter: leveldb.BuiltinBloomFilter2 with 100000000 keys cannot reach a false-positive rate of 0.001; the lowest is 0.023, at 43 bits per key
	// 100000000 keys, sievedb.CacheLineBloom with 16 bits per key
}
