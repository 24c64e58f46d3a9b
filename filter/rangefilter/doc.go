// Package rangefilter makes and asks filters of ranges: small summaries of a set of keys that
// answer "is any key in this range?" with "no", which is certain, or "perhaps". A filter of
// package [github.com/sievedb/sievedb/filter] answers for one key only.
//
// An iterator with both bounds asks the filters of each table, and skips a table that holds
// nothing between them. A [Policy] makes and reads such filters: [Prefix] for ranges within
// one prefix of the keys, which an [Extractor] takes from them, and [Grafite] for short ranges
// of a [Number] after the prefix. [PolicyNamed] finds the policy of a filter by its name.
//
// Policies are values without state: every method may be called from any goroutine. So may
// those of a [Probe]. A [Generator] belongs to one goroutine. Keys are in the order of their
// bytes; with a comparer of another order the answers would be wrong.
//
// # The bytes of a prefix filter
//
// A filter of [Prefix], "sievedb.PrefixBloom." and the [Extractor]'s name, is a
// cache-line filter of the prefixes of the keys, each once, with a byte behind it: 1 if
// every key had a prefix, 0 if one had none. What else stands there it says "perhaps" for.
// It is asked for ranges that lie within one prefix; if every key had one, and the
// extractor takes N bytes, zeros at the end of an upper bound of N bytes or less are left
// out beforehand, since no key is between.
//
// # The bytes of a Grafite filter
//
// A filter of [Grafite], "sievedb.Grafite.", the [Extractor]'s name, a dot and the
// [Number]'s, has a position for each of the N pairs of a prefix and a number, in rising
// order, as Elias and Fano code such lists.
//
//	+------------+------------+---+-----+-------+---------+
//	| lower bits | upper bits | N | low | flags | version |
//	+------------+------------+---+-----+-------+---------+
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       L     the lower bits of position i from bit low × i on, counted from the
//	              lowest of the first byte; L = N × low / 8, rounded up
//	L       H     the upper bits in unary: for each bucket 0 to N-1 a one for each
//	              position whose upper bits are the bucket, then a zero; in words of
//	              eight bytes, 2 N bits rounded up
//	L+H     8     N, at most 2^26
//	+8      1     low, 1 to 32: the bits a key less two
//	+9      1     1 if every key had a prefix, and 2 more if every number was all there
//	+10     1     1, the version of this layout
//
// What has other lengths, another number of ones, or values beyond these says "perhaps". So does
// the filter of more keys, which has no byte. A number x behind a prefix has its position
// in a universe of r = N × 2^low:
//
//	z        = XXH3-64 of the prefix, seed 0, + (x / r) × 0x9e3779b97f4a7c15
//	z        = (z xor z / 2^30) × 0xbf58476d1ce4e5b9
//	z        = (z xor z / 2^27) × 0x94d049bb133111eb, all modulo 2^64
//	offset   = (z xor z / 2^31) × r / 2^64, rounded down
//	position = (offset + x mod r) mod r
//
// so that the numbers of one block of r keep their distances. A range is then one of
// positions, or two where it reaches into the next block, each perhaps cut at r.
//
// The keys "a" 05, "a" 90 and "c" 05 with FixedPrefix(1) and BigEndian(1), six bits a key: N is 3, low 4, r 48.
//
//	key   block  offset  position  upper  lower
//	----  -----  ------  --------  -----  -----
//	a 90  3      0       0         0      0
//	c 05  0      32      37        2      5
//	a 05  0      34      39        2      7
//
//	lower bits 50 07, upper bits 1 0, 0, 1 1 0: 19 00 00 00 00 00 00 00,
//	N 03 00 00 00 00 00 00 00, low 04, flags 03, version 01
package rangefilter
