package lookup

// valueBuffer copies values, many into one allocation.
type valueBuffer struct {
	free   []byte // the remainder of the last allocation
	toCome int    // the maximum number of further values
}

// maxValuePiece bounds the memory that values share, in bytes.
const maxValuePiece = 32 << 10

func (b *valueBuffer) copy(value []byte) []byte {
	n := len(value)
	if n == 0 {
		return []byte{}
	}
	if n > len(b.free) {
		if n > maxValuePiece/4 { // a large value gets its own allocation
			return append(make([]byte, 0, n), value...)
		}
		// As if all further values were like this one.
		b.free = make([]byte, max(n, min(maxValuePiece, n*b.toCome)))
	}
	copied := b.free[:n:n]
	b.free = b.free[n:]
	copy(copied, value)
	return copied
}
