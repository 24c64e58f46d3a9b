package filter

// A Policy says how filters are made and asked. Its methods are pure and safe
// for concurrent use.
type Policy interface {
	// Name identifies the encoding of the filters, and is stored beside each of
	// them: a filter is only asked by a policy of the same name. A new encoding
	// needs a new name, or keys are lost.
	Name() string

	// CreateFilter appends the filter of keys to dst, whose bytes it leaves as
	// they are, and returns the extended slice. It uses dst's spare capacity
	// when the filter fits there. keys may hold duplicates and the empty key; it
	// keeps none of them.
	CreateFilter(dst []byte, keys [][]byte) []byte

	// KeyMayMatch reports whether key may be among the keys that filter was made
	// from: never false for one that was. filter may be any bytes (it is read
	// from a file): the answer may then be either, but it does not panic.
	KeyMayMatch(key, filter []byte) bool
}

// A Generator collects keys one by one and then makes their filter, without
// keeping the keys. It belongs to one goroutine.
type Generator interface {
	// Add adds a key, which the caller may overwrite afterwards. Adding a key
	// again costs room as a new key does: whoever adds sorted keys with
	// repetitions should leave the repetitions out.
	Add(key []byte)

	// Len returns how many keys were added since the last AppendFilter.
	Len() int

	// AppendFilter appends the filter of the added keys to dst, byte for byte
	// what CreateFilter would append for them, and forgets the keys. The
	// generator can be used again and keeps its memory for that.
	AppendFilter(dst []byte) []byte
}

// A GeneratorPolicy is a Policy that can take keys one by one. For a policy
// without it, whoever writes a table keeps the keys and calls CreateFilter.
type GeneratorPolicy interface {
	Policy

	// NewGenerator returns a Generator without keys.
	NewGenerator() Generator
}

// A HashPolicy is a Policy that answers from a hash of the key alone, so that a
// lookup hashes its key once and asks the filters of many tables. For a policy
// without it, KeyMayMatch is called for each table.
type HashPolicy interface {
	Policy

	// KeyHash returns the hash of key that HashMayMatch takes.
	KeyHash(key []byte) uint64

	// NewProbe prepares filter for many lookups. It keeps filter, which must not
	// change afterwards, by reference. It takes any bytes.
	NewProbe(filter []byte) Probe
}

// A DirectPolicy is a HashPolicy that also asks filters that were not prepared:
// a table of LevelDB's has hundreds of small ones, each asked too seldom to be
// worth a Probe. For a HashPolicy without it, KeyMayMatch hashes the key again
// for each of them.
type DirectPolicy interface {
	HashPolicy

	// HashMayMatchFilter returns what KeyMayMatch returns for filter and a key
	// with this KeyHash. It allocates nothing and keeps nothing.
	HashMayMatchFilter(hash uint64, filter []byte) bool
}

// A VersionedPolicy is a Policy that can tell filters that it reads from those of
// later versions under the same name, to which it can only say "may match". A
// reader that has another filter of the same keys asks that one then.
type VersionedPolicy interface {
	Policy

	// Understands reports whether filter is of a form that the policy reads. It
	// takes any bytes.
	Understands(filter []byte) bool
}

// A Probe is one filter prepared for lookups. It is immutable and safe for
// concurrent use.
type Probe interface {
	// HashMayMatch returns what KeyMayMatch of the policy returns for a key with
	// this KeyHash. It allocates nothing.
	HashMayMatch(hash uint64) bool
}
