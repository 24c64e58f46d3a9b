package manifest

import (
	"strings"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// FuzzParseCurrent checks that only the contents written by writeCurrent are accepted.
func FuzzParseCurrent(f *testing.F) {
	f.Add([]byte("MANIFEST-000001\n"))
	f.Add([]byte("MANIFEST-4611686018427387904\n"))
	f.Add([]byte("MANIFEST-000001\r\n"))
	f.Add([]byte("MANIFEST-1\n"))
	f.Add([]byte("../MANIFEST-000001\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		name, err := parseCurrent(content)
		if err != nil {
			require.ErrorIs(t, err, base.ErrCorruption)
			return
		}
		require.Equal(t, name+"\n", string(content))
		digits, ok := strings.CutPrefix(name, "MANIFEST-")
		require.True(t, ok)
		require.Empty(t, strings.Trim(digits, "0123456789"))
		kind, num, ok := base.ParseFileName(name)
		require.True(t, ok)
		require.Equal(t, base.FileName(kind, num), name)
	})
}
