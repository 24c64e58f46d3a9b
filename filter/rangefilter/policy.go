package rangefilter

// A Policy says how range filters are created and read. They answer "is any key in this range?"; those of a
// filter.Policy answer "is this key in the set?". Iterators with both bounds query them and skip tables without a key
// between the bounds. Keys are ordered bytewise; with another order the answers would be wrong. The methods of a Policy
// are pure and safe for concurrent use.
type Policy interface {
	// Name identifies the encoding of the filters and everything that determines how a key is represented in them. It
	// is stored with each filter. Only a policy of the same name reads the filter.
	Name() string

	// NewGenerator returns a Generator without keys.
	NewGenerator() Generator

	// NewProbe prepares filter for many queries. It retains filter, which must not change afterwards. filter may
	// contain any bytes; ok is false if the policy cannot read them. Such a filter rules nothing out.
	NewProbe(filter []byte) (probe Probe, ok bool)
}

// A Generator collects keys and then makes their filter. It must not be used concurrently.
type Generator interface {
	// Add adds a key, which the caller may overwrite afterwards. A key costs nothing if the filter represents it in the
	// same way as the key added before it. In a table's order, such keys follow each other.
	Add(key []byte)

	// AppendChecked appends the filter of the added keys to dst and forgets the keys. denied is how many of them the
	// finished filter denies: 0 unless the policy or the memory has a defect.
	AppendChecked(dst []byte) (extended []byte, denied int)

	// Reset forgets the keys. The generator reuses its memory.
	Reset()
}

// A Probe is a range filter prepared for queries. It is immutable and safe for concurrent use.
type Probe interface {
	// MayMatch reports whether a key k with lower <= k < upper may be among the keys that the filter was made from. It
	// never returns false if one is. It allocates nothing and retains neither bound.
	MayMatch(lower, upper []byte) bool
}
