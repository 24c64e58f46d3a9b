package rangefilter

// A Policy says how filters of ranges are made and read. They answer "is any key in this
// range?"; those of a filter.Policy answer "is this key there?". An iterator with both bounds
// asks them, and skips tables that hold nothing between its bounds. Keys are in the order of
// their bytes; under another order the answers would be wrong. The methods of a Policy are
// pure and safe for concurrent use.
type Policy interface {
	// Name identifies the encoding of the filters and everything that decides what a key
	// becomes in them. It is stored with each filter: only a policy of the same name reads
	// the filter.
	Name() string

	// NewGenerator returns a Generator without keys.
	NewGenerator() Generator

	// NewProbe prepares filter for many questions. It keeps a reference to filter, which
	// must not change afterwards. It accepts any bytes; ok is false if the policy cannot
	// read them, and such a filter rules nothing out.
	NewProbe(filter []byte) (probe Probe, ok bool)
}

// A Generator collects keys and then makes their filter. It belongs to one
// goroutine.
type Generator interface {
	// Add adds a key, which the caller may overwrite afterwards. A key that becomes the
	// same in the filter as the key before it costs nothing; the keys of a table come in
	// such an order.
	Add(key []byte)

	// AppendChecked appends the filter of the added keys to dst and forgets the keys.
	// denied is how many of them the finished filter denies to a reader: 0 unless the
	// policy or the memory has a defect.
	AppendChecked(dst []byte) (extended []byte, denied int)

	// Reset forgets the keys. The generator keeps its memory.
	Reset()
}

// A Probe is one filter of ranges prepared for questions. It is immutable and
// safe for concurrent use.
type Probe interface {
	// MayMatch reports whether a key k, lower <= k < upper, may be among the keys
	// that the filter was made from. It is never false if one is. It allocates nothing and
	// keeps neither bound.
	MayMatch(lower, upper []byte) bool
}
