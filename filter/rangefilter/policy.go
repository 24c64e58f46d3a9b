package rangefilter

// A Policy says how filters of ranges are made and asked: "is any key in this
// range?", where a filter.Policy's answer "is this key there?". An iterator with both bounds
// asks them to pass tables over that hold nothing there. Keys are in the order of
// their bytes; under another order the answers would be wrong. Its methods are pure and
// safe for concurrent use.
type Policy interface {
	// Name identifies the encoding of the filters and all that decides what a key
	// becomes in them, and is stored beside each: a filter is only asked by a policy
	// of the same name.
	Name() string

	// NewGenerator returns a Generator without keys.
	NewGenerator() Generator

	// NewProbe prepares filter for many questions. It keeps filter, which must not
	// change afterwards, by reference. It takes any bytes; ok is false for those that
	// the policy cannot read, which rule nothing out.
	NewProbe(filter []byte) (probe Probe, ok bool)
}

// A Generator collects keys and then makes their filter. It belongs to one
// goroutine.
type Generator interface {
	// Add adds a key, which the caller may overwrite afterwards. Keys that become the
	// same in the filter cost nothing where they come one behind the other, as those of
	// a table do.
	Add(key []byte)

	// AppendChecked appends the filter of the added keys to dst and forgets them. denied
	// is how many of them the finished filter denies, as a reader would find: 0 if all is
	// well.
	AppendChecked(dst []byte) (extended []byte, denied int)

	// Reset forgets the keys. The generator keeps its memory.
	Reset()
}

// A Probe is one filter of ranges prepared for questions. It is immutable and
// safe for concurrent use.
type Probe interface {
	// MayMatch reports whether a key k, lower <= k < upper, may be among the keys
	// that the filter was made from: never false if one is. It allocates nothing and keeps
	// neither.
	MayMatch(lower, upper []byte) bool
}
