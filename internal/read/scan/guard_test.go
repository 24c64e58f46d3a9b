package scan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGuardFindsChangesOfWhatWasLent(t *testing.T) {
	key, value := []byte("key"), []byte("value")
	for _, change := range []func(){func() {}, func() { key[0] ^= 1 }, func() { value[4] ^= 0x80 }} {
		var g guard
		require.Equal(t, key, g.key.lend(key))
		require.Equal(t, value, g.value.lend(value))
		before := string(key) + string(value)
		change()
		if before == string(key)+string(value) {
			require.NoError(t, g.end())
		} else {
			require.Equal(t, errChanged, g.end())
		}
		change()
		require.NoError(t, g.end(), "it was given back")
	}
}
