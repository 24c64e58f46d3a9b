// Package filter creates and queries filters: small summaries of a set of keys that
// answer "is this key in the set?" with "no", which is certain, or "perhaps".
//
// A lookup in a store of sorted tables would have to read a block of every table whose key range covers the key. A
// filter of about ten bits per key, kept in memory, lets the lookup skip the tables that do not hold the key: it saves
// about 99 of 100 needless reads. A filter must never deny a key that was added to it; every policy in this package
// keeps that promise for every byte string.
//
// The package works on keys and bytes and knows nothing about files or tables. A
// [Policy] builds a filter from a list of keys and checks a key against it; a user's
// own policy needs no more than that. Optional interfaces make it cheaper:
//
//   - A [GeneratorPolicy] accepts keys one at a time, so that the keys of a table
//     need not be kept in memory.
//   - A [HashPolicy] hashes a key once for all tables of a lookup.
//   - A [DirectPolicy] does so for the many small filters of LevelDB's tables too.
//   - A [VersionedPolicy] recognizes filters of its name that are too new for it.
//
// [BloomPolicy] and [FusePolicy] implement all of them. [LegacyBloom] reads the
// filters of goleveldb and of LevelDB before 1.18. [None] writes no filter. With
// [Several], a table carries several filters, and a reader uses the first that it knows.
//
// Two packages build on this one. The filters of package [github.com/sievedb/sievedb/filter/rangefilter] answer whether
// any key is in a range, so that an iterator can skip tables. Those of package
// [github.com/sievedb/sievedb/filter/standalone] are in-memory sets for use outside a store.
//
// Policies are values without state. All methods of a policy and of a [Probe] are safe
// for concurrent use. A [Generator] must not be used concurrently. No function retains
// a key; only a Probe retains the filter that it was given.
//
// A filter hashes the bytes of keys. With a comparer that treats different bytes as equal (for example by ignoring case
// or trailing spaces), use None, or a policy that hashes what the comparer compares.
//
// # False-positive rates
//
// These are the false-positive rates, in percent, of the filters of [NewBloomPolicy] and
// [NewCacheLineBloomPolicy] for a table of 20,000 random keys:
//
//	bits per key  4      6      8      10     12     16      20
//	LevelDB       15.5   6.31   2.32   0.904  0.350  0.0498  0.0079
//	cache lines   14.8   5.77   2.33   0.966  0.414  0.0844  0.0203
//
// The rates of cache lines do not depend on the keys or, from some hundred on, their number. Those of LevelDB's
// filters do, are higher for fewer than a hundred keys and more than 50,000, and several times higher for
// some keys that are counters; see [PredictedRate].
//
// A binary fuse filter has a rate of 1/256, or 0.391 %, with [FusePolicy]{}, and 2^-b with [NewFusePolicy](b), for 1 to
// 16 bits of a slot. It has few more slots than keys. These are the bits per key for slots of 8 bits:
//
//	keys          1    10    100  1000  10,000  20,000  100,000  1,000,000  10,000,000
//	bits per key  120  21.6  13   10.8  9.63    9.42    8.93     8.55       8.51
//
// [BloomPolicy.ForRate] returns the policy with the fewest bits per key for a given rate.
// [Curve.Allocate] divides a number of bits among the levels of an LSM tree. [ShapeOf]
// reports what a filter's bytes say about its kind and its expected rate.
//
// The comments at the top of bloom.go, cacheline.go and fuse.go describe the bytes of the
// filters, each with an example worked by hand.
package filter
