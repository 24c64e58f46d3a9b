package dbdir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecodeMark(f *testing.F) {
	f.Add(mark{strings.Repeat("0f", 16), "/a \"dir\"\n"}.encode())
	f.Add(mark{strings.Repeat("0f", 16), ""}.encode())
	f.Add([]byte(markFirstLine + "\nid \nother \"\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, ok := decodeMark(data); ok {
			require.Equal(t, string(data), string(m.encode()))
			require.Len(t, m.id, 32)
		}
	})
}
