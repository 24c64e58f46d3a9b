// Package filter makes and asks filters: small summaries of a set of keys that
// answer "is this key in the set?" with "no", which is certain, or "perhaps".
//
// A lookup in a store of sorted tables would have to read a block of every
// table whose key range covers the key. A filter of about ten bits a key, kept
// in memory, lets it skip the tables that do not hold the key: of a hundred
// needless reads it saves about ninety-nine. What it must never do is deny a
// key that went in; every policy here keeps that promise for every byte string.
//
// The package knows keys and bytes, no files and no tables. A [Policy] makes
// one filter from a list of keys and asks it about one key; that is all that a
// user's own policy needs. Optional interfaces make it cheap: a
// [GeneratorPolicy] takes keys one by one, so that a table's keys need not be
// kept; a [HashPolicy] hashes a key once for all tables of a lookup, and a
// [DirectPolicy] for the many small filters of LevelDB's tables too; a
// [VersionedPolicy] knows which filters of its name are too new for it.
// [BloomPolicy] has them all, and so has [FusePolicy]; [LegacyBloom] reads the filters
// of goleveldb and of LevelDB before 1.18; [None] writes no filter. [Several] policies give a
// table several filters, of which a reader asks the best that it knows.
//
// Two packages above this one have filters of other kinds. Those of
// [github.com/sievedb/sievedb/filter/rangefilter] answer whether any key is in a range, so that
// an iterator can skip tables. Those of [github.com/sievedb/sievedb/filter/standalone] are no
// policies, but sets in memory.
//
// Policies are values without state: every method may be called from any
// goroutine. So may those of a [Probe]. A [Generator] belongs to one goroutine.
// No function keeps a key; a Probe alone keeps the filter that it was given.
//
// A filter hashes the bytes of keys. With a comparer that calls different bytes
// equal (it ignores case, or trailing spaces) use None, or a policy that hashes
// what the comparer compares.
//
// # The bytes of LevelDB's bloom filter
//
// A filter of [NewBloomPolicy] is, bit for bit, what LevelDB writes (its
// util/bloom.cc and util/hash.cc) under the name "leveldb.BuiltinBloomFilter2".
// It never changes.
//
//	bit 7      0 15     8                m-1  m-8
//	+-----------+-----------+-----+-----------+-----------+
//	|  byte 0   |  byte 1   |  …  | byte m/8-1|     k     |
//	+-----------+-----------+-----+-----------+-----------+
//	|<---------- m bits, m a multiple of 8 -->|<- 1 byte >|
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       m/8   the bits; bit i is bit i mod 8, counted from the lowest, of
//	              byte i/8. m = keys × bits a key, at least 64, rounded up to
//	              whole bytes, and below 2^32
//	m/8     1     k, how many bits each key sets: bits a key × 0.69, rounded
//	              down, within 1..30
//
// There is no magic number, length or checksum: the block that holds the filter
// has those. A reader takes m from the length and k from the last byte, never
// from its own settings, so filters made with any settings stay readable. What
// no writer makes is read as follows:
//
//	filter                   answer
//	-----------------------  -----------------------------------------------
//	shorter than two bytes   no (as LevelDB)
//	k = 0                    perhaps (as LevelDB: there is no bit to miss)
//	k > 30                   perhaps (as LevelDB: kept for later encodings)
//	m of 2^32 or more        perhaps (LevelDB reads on; nobody writes these)
//
// Which bits a key sets (double hashing; Kirsch and Mitzenmacher 2006):
//
//	h     = util.Hash(key, 0xbc9f1d34)      32 bits, tail bytes unsigned
//	delta = h rotated right by 17
//	k times:  set bit h mod m;  h = h + delta  (modulo 2^32)
//
// A lookup tests the same bits and stops at the first that is clear.
//
// The name without the 2, "leveldb.BuiltinBloomFilter", stands for two
// encodings: goleveldb's, which is the one above, and that of LevelDB before
// 1.18, whose h takes the tail bytes as signed on most machines. [LegacyBloom]
// believes "no" only where both would say it.
//
// # By hand
//
// The keys "hello" and "world" at ten bits a key: 20 bits are too few, so m is
// 64 and the bits take eight bytes; k = 6.
//
//	key    h           delta       h mod 64, then + delta each time
//	-----  ----------  ----------  --------------------------------
//	hello  0xf795964e  0xcb277bca  14  24  34  44  54   0
//	world  0x42c4e8fc  0x747e2162  60  30   0  34   4  38
//
// Bits 0 and 34 are set by both, so ten of the 64 bits are ones:
//
//	bits    0,4   14   -    24,30  34,38  44   54   60   k
//	bytes   11    40   00   41     44     10   40   10   06
//
// # The bytes of a cache-line filter
//
// A filter of [NewCacheLineBloomPolicy], "sievedb.CacheLineBloom", has all bits
// of a key in one line of 512 bits, which is one cache line where the filter is
// loaded to a multiple of 64 bytes: a lookup waits for memory once. Its hash has
// 64 bits, so equal hashes play no part, and mixes counters as well as anything.
//
//	+----------+----------+-----+----------+-----+---------+
//	|  line 0  |  line 1  |  …  | line L-1 |  k  | version |
//	+----------+----------+-----+----------+-----+---------+
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       64 L  the lines; bit i of a line is bit i mod 8, counted from the
//	              lowest, of its byte i/8. L = keys × bits a key / 512, rounded
//	              up, at least 1, and below 2^25
//	64 L    1     k, how many bits each key sets: see [CacheLineHashes]
//	64 L+1  1     1, the version of this layout
//
// A reader takes L from the length. What it does not know says "perhaps" to every
// key: a length of another form, a k of 0 or above 30, another version.
//
//	h     = XXH3-64 of the key, seed 0 (util.XXH3)
//	line  = h × L / 2^64, rounded down: the upper half of the 128-bit product
//	pair 1, 2, … of k/2:  h = h × 0x9e3779b97f4a7c15 (modulo 2^64)
//	        bits h / 2^55 and (h / 2^46) mod 512 of the line
//	an odd k takes the first bit of one more pair
//
// The keys "hello" and "world" at ten bits a key have one line, and k = 6:
//
//	key    h                   h × 0x9e37…, pair 1  bits
//	-----  ------------------  -------------------  -----------------------
//	hello  0x9555e8555c62dcfd  0x7c576fcadb48acc1   248 349 282 391 429 353
//	world  0xd6476c25083d69be  0xc536e08b3f2db496   394 219 194 480 438 390
//
//	bits    194 219 248 282 349 353 390,391 394 429 438 480  k   version
//	byte     24  27  31  35  43  44      48  49  53  54  60  64  65
//	is       04  08  01  04  20  02      c0  04  20  40  01  06  01
//
// # The bytes of a binary fuse filter
//
// A filter of [FusePolicy], "sievedb.BinaryFuse8", has slots of one byte, four for each
// key, whose xor is the key's fingerprint. There are little more slots than keys:
// whoever makes the filter solves the equations.
//
//	+-----------+-----------+-----+-----------+--------+----+---------+
//	| segment 0 | segment 1 |  …  |segment S-1| number | lg | version |
//	+-----------+-----------+-----+-----------+--------+----+---------+
//
//	offset    size      meaning
//	--------  --------  ---------------------------------------------------
//	0         S × 2^lg  the slots, in S segments of 2^lg; S is at least 4
//	S × 2^lg  1         the number of the multiplier; a writer whose keys it does
//	                    not suit takes another
//	+1        1         lg, at most 16
//	+2        1         1, the version of this layout
//
// A reader takes S from the length. What it does not know says "perhaps" to every key:
// a length that is no multiple of a segment, fewer than four of them, a greater lg,
// another version. A writer that found no solution writes no slots, and says so.
//
//	h      = XXH3-64 of the key, seed 0, as for cache lines
//	m      = 0x9e3779b97f4a7c15 × (2 × number + 1), modulo 2^64
//	g      = h × m / 2^64, rounded down, xor h × m modulo 2^64
//	slot 0 = g × ((S-3) × 2^lg) / 2^64, rounded down, within its segment at w
//	slot 1 = in the next segment, at w xor the lower lg bits of g / 2^32
//	slot 2 = in the one behind it, at w xor the lower lg bits of g / 2^16
//	slot 3 = in the one behind that, at w xor the lower lg bits of g
//	print  = g × 0x9e3779b97f4a7c15 (modulo 2^64) / 2^56
//
// The four slots of a key that went in give print; so do those of one in 256 others.
//
// The keys "hello" and "world" have five segments of two slots, multiplier 0:
//
//	key    g                   slots        print
//	-----  ------------------  -----------  -----
//	hello  0x201c0e11b2ca81b4  0  3  4  6   f3
//	world  0x41586371227cafd2  1  2  5  7   48
//
//	slot   0  1  2  3  4  5  6  7  8  9  number  lg  version
//	is    f3 48 00 00 00 00 00 00 00 00      00  01       01
//
// # How often "perhaps" is wrong
//
// In a bloom filter with an ideal hash, n keys and m bits, a key that is not in the set finds its k bits set with
// probability (1 - e^(-kn/m))^k ([FalsePositiveRate]). k = ln 2 × m/n would be
// best, when half of the bits are ones; LevelDB's k is a little less, and saves
// a probe. LevelDB's double hashing is not ideal. With all of it counted ([PredictedRate]), for
// twenty thousand keys, as a table has, and for a million, beside the formula:
//
//	bits a key   4        6        8        10       12       16       20
//	k            2        4        5        6        8        11       13
//	formula      15.5 %   5.61 %   2.17 %   0.844 %  0.314 %  0.0459 % 0.0068 %
//	20,000       15.5 %   6.31 %   2.32 %   0.904 %  0.350 %  0.0498 % 0.0079 %
//	1,000,000    15.5 %   8.49 %   3.18 %   1.31 %   0.496 %  0.0967 % 0.0390 %
//
// The rate goes up and down by a tenth with the exact number of bits, and from fifty
// thousand keys on by more: the third of a key's bits is one of 200,000 places,
// however large the filter, and these are soon all taken.
//
// Two more things raise it, and more bits do not cure them. Two keys
// whose 32-bit hashes are equal cannot be told apart: that adds n/2^32, 0.02 %
// at a million keys, 2.3 % at a hundred million (this part is in PredictedRate).
// And the hash is weak on counters: of absent keys that are neighbours of stored
// ones in "%016d" or "%08x", 6 to 19 in a hundred share a stored key's hash.
//
// Cache lines know neither ([CacheLineFalsePositiveRate]). They err a little more
// often because the keys spread unevenly over the lines, 0.94 to 1.00 % at ten
// bits a key whatever the keys and their number:
//
//	bits a key   4        6        8        10       12       16       20
//	k            3        4        5        6        7        9        10
//	rate         14.8 %   5.77 %   2.33 %   0.966 %  0.414 %  0.0844 % 0.0203 %
//
// A binary fuse filter errs in one of 256 absent keys, 0.391 %, and cannot be given
// more bits or fewer. What it takes depends on the keys:
//
//	keys          1    10    100  1000  10,000  20,000  100,000  1,000,000  10,000,000
//	bits a key    120  21.6  13   10.8  9.63    9.42    8.93     8.55       8.51
//
// The other way round: [BloomPolicy.ForRate] finds the bits a key for a wanted rate,
// or says that no number of bits will do, [BestHashes] the best k for given bits, and
// [SpecForRate] the least bits and then the least k of a filter with an ideal hash.
// [Curve.Allocate] divides the bits that there are among the levels of an LSM tree, and
// [ShapeOf] tells of a filter's bytes what it is and how often it should err.
package filter
