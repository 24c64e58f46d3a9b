package main

import "math/rand/v2"

// valueSource hands out values that compress to a given share of their size,
// in db_bench's way: windows of a long text in which each piece of 100 bytes
// is random for that share and then repeats itself. A thread has its own.
type valueSource struct {
	text []byte
	pos  int
}

const (
	valueTextBytes  = 1 << 20
	valuePieceBytes = 100
)

func newValueSource(rng *rand.Rand, valueSize int, compressionRatio float64) *valueSource {
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
	return &valueSource{text: text}
}

// next returns n bytes, valid for good and not to be changed.
func (v *valueSource) next(n int) []byte {
	if v.pos > len(v.text)-n {
		v.pos = 0
	}
	value := v.text[v.pos : v.pos+n : v.pos+n]
	v.pos += n
	return value
}
