package rangefilter

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Generators retained the memory of the longest prefix for all filters that followed.
func TestGeneratorsReleaseLongPrefixes(t *testing.T) {
	long := append(bytes.Repeat([]byte("p"), 1<<20), '/', 0, 0, 0, 0, 0, 0, 0, 1)
	prefix := SeparatedPrefix('/', 1)
	p := NewPrefix(prefix, 10).NewGenerator().(*prefixGenerator)
	p.Add(long)
	p.Reset()
	require.Nil(t, p.last)
	g := NewGrafite(prefix, BigEndian(8), 16).NewGenerator().(*grafiteGenerator)
	g.Add(long)
	g.Reset()
	require.Nil(t, g.last)
}
