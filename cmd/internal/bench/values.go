package bench

import "math/rand/v2"

// ValueSource returns values that compress to a given share of their size. Like db_bench, it returns windows of a long
// text, in which each piece of 100 bytes is random for that share and then repeats. It is not safe for concurrent use.
type ValueSource struct {
	text []byte
	pos  int
}

// db_bench's sizes.
const (
	valueTextBytes  = 1 << 20
	valuePieceBytes = 100
)

// NewValueSource generates the text with rng. Values have at most valueSize bytes.
// compressionRatio, above 0 and at most 1, is the compressed share of their size.
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

// Next returns n bytes. They stay valid, and the caller must not change them.
func (v *ValueSource) Next(n int) []byte {
	if v.pos > len(v.text)-n {
		v.pos = 0
	}
	value := v.text[v.pos : v.pos+n : v.pos+n]
	v.pos += n
	return value
}

// At returns the value of n bytes for a number, the same in each call, so a reader can check
// it. It stays valid, and the caller must not change it.
func (v *ValueSource) At(number uint64, n int) []byte {
	pieces := uint64((len(v.text)-n)/valuePieceBytes + 1)
	start := int(number%pieces) * valuePieceBytes
	return v.text[start : start+n : start+n]
}
