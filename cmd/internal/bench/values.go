package bench

import "math/rand/v2"

// ValueSource hands out values that compress to a given share of their size,
// in db_bench's way: windows of a long text in which each piece of 100 bytes
// is random for that share and then repeats itself. A thread has its own.
type ValueSource struct {
	text []byte
	pos  int
}

// The text of db_bench is as long.
const (
	valueTextBytes  = 1 << 20
	valuePieceBytes = 100
)

// NewValueSource makes the text with rng. Values are at most valueSize bytes;
// compressionRatio, above 0 and at most 1, is the share that remains of them.
func NewValueSource(rng *rand.Rand, valueSize int, compressionRatio float64) *ValueSource {
	want := max(valueTextBytes, valueSize)
	text := make([]byte, 0, want+valuePieceBytes)
	randomBytes := max(int(valuePieceBytes*compressionRatio), 1)
	for len(text) < want {
		start := len(text)
		for range randomBytes {
			text = append(text, byte(' '+rng.IntN(95)))
		}
		for len(text) < start+valuePieceBytes {
			text = append(text, text[len(text)-randomBytes])
		}
	}
	return &ValueSource{text: text}
}

// Next returns n bytes, valid for good and not to be changed.
func (v *ValueSource) Next(n int) []byte {
	if v.pos > len(v.text)-n {
		v.pos = 0
	}
	value := v.text[v.pos : v.pos+n : v.pos+n]
	v.pos += n
	return value
}

// At returns the value of n bytes that belongs to a number, the same at each call,
// so that what is read can be compared with what was written. It is valid for
// good and not to be changed.
func (v *ValueSource) At(number uint64, n int) []byte {
	pieces := uint64((len(v.text)-n)/valuePieceBytes + 1)
	start := int(number%pieces) * valuePieceBytes
	return v.text[start : start+n : start+n]
}
