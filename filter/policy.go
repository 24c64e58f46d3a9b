package filter

// A Policy says how filters are created and queried. Its methods are pure and safe for concurrent use.
type Policy interface {
	// Name identifies the encoding of the filters and is stored with each of them. Only a policy of the same name reads
	// a filter. A new encoding needs a new name; otherwise lookups would miss keys.
	Name() string

	// CreateFilter appends the filter of keys to dst, without changing the bytes of dst, and returns the extended
	// slice. It uses dst's spare capacity if the filter fits there. keys may contain duplicates and the empty key;
	// CreateFilter retains none of them.
	CreateFilter(dst []byte, keys [][]byte) []byte

	// KeyMayMatch reports whether key may be among the keys that filter was made from. It never returns false for one
	// of them. filter comes from a file and may contain any bytes: for bytes that no policy wrote the result is
	// arbitrary, but KeyMayMatch does not panic.
	KeyMayMatch(key, filter []byte) bool
}

// A Generator collects keys one at a time and then makes their filter. It does not
// retain the keys and must not be used concurrently.
type Generator interface {
	// Add adds a key, which the caller may overwrite afterwards. A key that is added twice uses as much space as two
	// keys; callers that add sorted keys should skip duplicates.
	Add(key []byte)

	// Len returns the number of keys added since the last AppendFilter.
	Len() int

	// AppendFilter appends the filter of the added keys to dst, byte for byte as CreateFilter would, and forgets the
	// keys. The generator can be used again and reuses its memory.
	AppendFilter(dst []byte) []byte
}

// A GeneratorPolicy is a Policy that accepts keys one at a time. For a policy without
// this method, the writer of a table keeps the keys and calls CreateFilter.
type GeneratorPolicy interface {
	Policy

	// NewGenerator returns a Generator without keys.
	NewGenerator() Generator
}

// A HashPolicy is a Policy that needs only a hash of the key, so that a lookup hashes its key once and checks the
// filters of many tables. For a policy without these methods, KeyMayMatch is called for each table.
type HashPolicy interface {
	Policy

	// KeyHash returns the hash of key that HashMayMatch accepts.
	KeyHash(key []byte) uint64

	// NewProbe prepares filter for many lookups. It retains filter, which must not
	// change afterwards. filter may contain any bytes.
	NewProbe(filter []byte) Probe
}

// A DirectPolicy is a HashPolicy that can also query filters without a Probe. A table in LevelDB's layout has hundreds
// of small filters, each queried too seldom to be worth a Probe. For a HashPolicy without this method, KeyMayMatch
// hashes the key again for each of them.
type DirectPolicy interface {
	HashPolicy

	// HashMayMatchFilter returns the result of KeyMayMatch for filter and a key with
	// this KeyHash. It allocates and retains nothing.
	HashMayMatchFilter(hash uint64, filter []byte) bool
}

// A VersionedPolicy is a Policy that can distinguish filters that it reads from those of
// later versions under the same name, for which it can only answer "may match". A reader
// of a table that has another filter of the same keys then uses that one.
type VersionedPolicy interface {
	Policy

	// Understands reports whether the policy can read filter. filter may contain any bytes.
	Understands(filter []byte) bool
}

// A Probe is one filter prepared for lookups. It is immutable and safe for concurrent use.
type Probe interface {
	// HashMayMatch returns the result of the policy's KeyMayMatch for a key with this KeyHash. It allocates nothing.
	HashMayMatch(hash uint64) bool
}
